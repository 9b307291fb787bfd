package autoscaling

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// HorizontalPodAutoscaler defines the kind HorizontalPodAutoscaler.
func HorizontalPodAutoscaler() *kinds.Definition {
	type autoscaler = *autoscalingv2.HorizontalPodAutoscaler
	specStatus := kinds.SpecStatusOf(func(a autoscaler) (*autoscalingv2.HorizontalPodAutoscalerSpec, *autoscalingv2.HorizontalPodAutoscalerStatus) {
		return &a.Spec, &a.Status
	})
	return kinds.Of[autoscaler]{
		Columns:      horizontalPodAutoscalerColumns(),
		Level:        kinds.Full,
		Default:      defaultHorizontalPodAutoscaler,
		Create:       specStatus.Begin,
		Validate:     validateHorizontalPodAutoscaler,
		Update:       kinds.ChangeOf[autoscaler]{Prepare: specStatus.KeepStatus, Validate: validateHorizontalPodAutoscalerUpdate},
		Subresources: map[string]kinds.ChangeOf[autoscaler]{"status": {Prepare: specStatus.KeepSpec, Validate: validateHorizontalPodAutoscalerStatus}},
	}.Definition()
}

// HorizontalPodAutoscalerV1 defines autoscaling/v1 autoscalers. They are converted to v2
// and checked by its rules, since most of their content is in annotations.
func HorizontalPodAutoscalerV1() *kinds.Definition {
	type autoscaler = *autoscalingv1.HorizontalPodAutoscaler
	newer := HorizontalPodAutoscaler()
	prepared := func(prepare func(obj, old scheme.Object)) func(a, old autoscaler) {
		return func(a, old autoscaler) {
			obj := storedAutoscaler(a)
			prepare(obj, storedAutoscaler(old))
			*a = *autoscalerToV1(obj)
		}
	}
	checked := func(validate func(obj, old scheme.Object) field.ErrorList) func(a, old autoscaler) field.ErrorList {
		return func(a, old autoscaler) field.ErrorList { return validate(storedAutoscaler(a), storedAutoscaler(old)) }
	}
	s := kinds.Of[autoscaler]{
		Columns: horizontalPodAutoscalerV1Columns(),
		Level:   kinds.Full,
		Default: defaultHorizontalPodAutoscalerV1,
		Create: func(a autoscaler) {
			obj := storedAutoscaler(a)
			newer.PrepareForCreate(obj)
			*a = *autoscalerToV1(obj)
		},
		Validate: func(a autoscaler) field.ErrorList { return newer.Validate(storedAutoscaler(a)) },
		Update:   kinds.ChangeOf[autoscaler]{Prepare: prepared(newer.Update.Prepare), Validate: checked(newer.Update.Validate)},
		Subresources: map[string]kinds.ChangeOf[autoscaler]{"status": {
			Prepare: prepared(newer.Subresources["status"].Prepare), Validate: checked(newer.Subresources["status"].Validate),
		}},
	}.Definition()
	s.ToStored = kinds.EachConverted(func(a autoscaler) scheme.Object { return storedAutoscaler(a) })
	s.FromStored = kinds.EachConverted(func(a *autoscalingv2.HorizontalPodAutoscaler) scheme.Object { return autoscalerToV1(a) })
	return s
}

// storedAutoscaler converts an autoscaler to v2 and sets its defaults.
func storedAutoscaler(a *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	obj := autoscalerToV2(a.DeepCopy())
	defaultHorizontalPodAutoscaler(obj)
	return obj
}

// minReplicas is the default lower bound of an autoscaler.
const minReplicas = 1

// Kubernetes' defaults for autoscalers.
const (
	cpuUtilization  int32 = 80
	scalingPeriod   int32 = 15
	scalingPercent  int32 = 100
	scalingUpByPods int32 = 4
)

// defaultHorizontalPodAutoscaler sets the defaults of an autoscaler. It leaves the stabilization window
// for scaling down unset: the controller chooses it.
func defaultHorizontalPodAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	kinds.Fill(&a.Spec.MinReplicas, int32(minReplicas))
	if len(a.Spec.Metrics) == 0 {
		a.Spec.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(cpuUtilization),
			}},
		}}
	}
	b := a.Spec.Behavior
	if b == nil {
		return
	}
	percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: scalingPercent, PeriodSeconds: scalingPeriod}
	pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: scalingUpByPods, PeriodSeconds: scalingPeriod}
	if b.ScaleUp == nil {
		b.ScaleUp = &autoscalingv2.HPAScalingRules{}
	}
	kinds.Fill(&b.ScaleUp.StabilizationWindowSeconds, int32(0))
	if b.ScaleDown == nil {
		b.ScaleDown = &autoscalingv2.HPAScalingRules{}
	}
	defaultScalingRules(b.ScaleUp, pods, percent)
	defaultScalingRules(b.ScaleDown, percent)
}

func defaultScalingRules(rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	kinds.Fill(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = policies
	}
}

// defaultHorizontalPodAutoscalerV1 sets the defaults of an autoscaling/v1 autoscaler. It targets a CPU
// utilization unless an annotation has other metrics.
func defaultHorizontalPodAutoscalerV1(a *autoscalingv1.HorizontalPodAutoscaler) {
	kinds.Fill(&a.Spec.MinReplicas, int32(minReplicas))
	var others []autoscalingv1.MetricSpec
	if !annotated(a, metricsAnnotation, &others) || len(others) == 0 {
		kinds.Fill(&a.Spec.TargetCPUUtilizationPercentage, cpuUtilization)
	}
}

// shownMetrics is how many metrics of an autoscaler are shown; the others are counted.
const shownMetrics = 2

func horizontalPodAutoscalerColumns() *columns.Layout {
	return columns.Of(autoscalerColumns(), autoscalerCells)
}

// horizontalPodAutoscalerV1Columns shows autoscaling/v1 autoscalers like those of v2.
func horizontalPodAutoscalerV1Columns() *columns.Layout {
	return columns.Of(autoscalerColumns(), func(a *autoscalingv1.HorizontalPodAutoscaler, now time.Time) []any {
		return autoscalerCells(autoscalerToV2(a), now)
	})
}

func autoscalerColumns() []metav1.TableColumnDefinition {
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Reference", spec["scaleTargetRef"]),
		columns.Text("Targets", spec["metrics"]),
		columns.Text("MinPods", spec["minReplicas"]),
		columns.Text("MaxPods", spec["maxReplicas"]),
		columns.Text("Replicas", status["currentReplicas"]),
		columns.Age(),
	}
}

func autoscalerCells(a *autoscalingv2.HorizontalPodAutoscaler, now time.Time) []any {
	least := columns.Unset
	if a.Spec.MinReplicas != nil {
		least = strconv.Itoa(int(*a.Spec.MinReplicas))
	}
	return []any{
		a.Name, a.Spec.ScaleTargetRef.Kind + "/" + a.Spec.ScaleTargetRef.Name, metricsCell(a.Spec.Metrics, a.Status.CurrentMetrics),
		least, int64(a.Spec.MaxReplicas), int64(a.Status.CurrentReplicas), columns.AgeOf(a, now),
	}
}

// metricsCell shows an autoscaler's measured and target values.
func metricsCell(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return columns.None
	}
	var list []string
	for i := range specs {
		var status autoscalingv2.MetricStatus
		if i < len(statuses) {
			status = statuses[i]
		}
		list = append(list, metricCell(&specs[i], &status))
	}
	if more := len(list) - shownMetrics; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:shownMetrics], ", "), more)
	}
	return strings.Join(list, ", ")
}

func metricCell(spec *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
	switch {
	case spec.Type == autoscalingv2.ExternalMetricSourceType && spec.External != nil:
		var now *autoscalingv2.MetricValueStatus
		if status.External != nil {
			now = &status.External.Current
		}
		return whole(&spec.External.Target, now)
	case spec.Type == autoscalingv2.ObjectMetricSourceType && spec.Object != nil:
		var now *autoscalingv2.MetricValueStatus
		if status.Object != nil {
			now = &status.Object.Current
		}
		return whole(&spec.Object.Target, now)
	case spec.Type == autoscalingv2.PodsMetricSourceType && spec.Pods != nil:
		now := columns.Unknown
		if status.Pods != nil {
			now = shownQuantity(status.Pods.Current.AverageValue)
		}
		return now + "/" + shownQuantity(spec.Pods.Target.AverageValue)
	case spec.Type == autoscalingv2.ResourceMetricSourceType && spec.Resource != nil:
		var now *autoscalingv2.MetricValueStatus
		if status.Resource != nil {
			now = &status.Resource.Current
		}
		return string(spec.Resource.Name) + ": " + share(&spec.Resource.Target, now)
	case spec.Type == autoscalingv2.ContainerResourceMetricSourceType && spec.ContainerResource != nil:
		var now *autoscalingv2.MetricValueStatus
		if status.ContainerResource != nil {
			now = &status.ContainerResource.Current
		}
		return string(spec.ContainerResource.Name) + ": " + share(&spec.ContainerResource.Target, now)
	}
	return "<unknown type>"
}

// whole shows a metric of something other than pods: its value, or its average per pod.
func whole(target *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	current := columns.Unknown
	if target.AverageValue != nil {
		if now != nil && now.AverageValue != nil {
			current = now.AverageValue.String()
		}
		return current + "/" + target.AverageValue.String() + " (avg)"
	}
	if now != nil {
		current = shownQuantity(now.Value)
	}
	return current + "/" + shownQuantity(target.Value)
}

// share shows a resource metric: a pod's average use, or its average utilization of the request.
func share(target *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	current, wanted := columns.Unknown, "<auto>"
	if target.AverageValue != nil {
		if now != nil {
			current = shownQuantity(now.AverageValue)
		}
		return current + "/" + target.AverageValue.String()
	}
	if now != nil && now.AverageUtilization != nil {
		current = fmt.Sprintf("%d%%", *now.AverageUtilization)
	}
	if target.AverageUtilization != nil {
		wanted = fmt.Sprintf("%d%%", *target.AverageUtilization)
	}
	return current + "/" + wanted
}

// shownQuantity formats a quantity that may be missing, which Kubernetes shows as <nil>.
func shownQuantity(q *resource.Quantity) string { return q.String() }
