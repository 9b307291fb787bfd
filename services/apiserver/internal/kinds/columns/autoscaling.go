package columns

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/conversion"
)

// shownMetrics is how many metrics of an autoscaler are shown; the others are counted.
const shownMetrics = 2

func horizontalPodAutoscalers() layout {
	return of(autoscalerColumns(), autoscalerCells)
}

// horizontalPodAutoscalersV1 shows autoscaling/v1 autoscalers like those of v2.
func horizontalPodAutoscalersV1() layout {
	return of(autoscalerColumns(), func(a *autoscalingv1.HorizontalPodAutoscaler, now time.Time) []any {
		return autoscalerCells(conversion.AutoscalerToV2(a), now)
	})
}

// scales are the columns of a workload's scale subresource.
func scales() layout {
	return of([]metav1.TableColumnDefinition{
		text("Name", metav1.ObjectMeta{}.SwaggerDoc()["name"]),
		number("Desired", autoscalingv1.ScaleSpec{}.SwaggerDoc()["replicas"]),
		number("Available", autoscalingv1.ScaleStatus{}.SwaggerDoc()["replicas"]),
		age(),
	}, func(s *autoscalingv1.Scale, now time.Time) []any {
		return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), ageOf(s, now)}
	})
}

func autoscalerColumns() []metav1.TableColumnDefinition {
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	return []metav1.TableColumnDefinition{
		name(),
		text("Reference", spec["scaleTargetRef"]),
		text("Targets", spec["metrics"]),
		text("MinPods", spec["minReplicas"]),
		text("MaxPods", spec["maxReplicas"]),
		text("Replicas", status["currentReplicas"]),
		age(),
	}
}

func autoscalerCells(a *autoscalingv2.HorizontalPodAutoscaler, now time.Time) []any {
	least := unset
	if a.Spec.MinReplicas != nil {
		least = strconv.Itoa(int(*a.Spec.MinReplicas))
	}
	return []any{
		a.Name, a.Spec.ScaleTargetRef.Kind + "/" + a.Spec.ScaleTargetRef.Name, metrics(a.Spec.Metrics, a.Status.CurrentMetrics),
		least, int64(a.Spec.MaxReplicas), int64(a.Status.CurrentReplicas), ageOf(a, now),
	}
}

// metrics shows an autoscaler's measured and target values.
func metrics(specs []autoscalingv2.MetricSpec, statuses []autoscalingv2.MetricStatus) string {
	if len(specs) == 0 {
		return none
	}
	var list []string
	for i := range specs {
		var status autoscalingv2.MetricStatus
		if i < len(statuses) {
			status = statuses[i]
		}
		list = append(list, metric(&specs[i], &status))
	}
	if more := len(list) - shownMetrics; more > 0 {
		return fmt.Sprintf("%s + %d more...", strings.Join(list[:shownMetrics], ", "), more)
	}
	return strings.Join(list, ", ")
}

func metric(spec *autoscalingv2.MetricSpec, status *autoscalingv2.MetricStatus) string {
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
		now := unknown
		if status.Pods != nil {
			now = quantity(status.Pods.Current.AverageValue)
		}
		return now + "/" + quantity(spec.Pods.Target.AverageValue)
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
	current := unknown
	if target.AverageValue != nil {
		if now != nil && now.AverageValue != nil {
			current = now.AverageValue.String()
		}
		return current + "/" + target.AverageValue.String() + " (avg)"
	}
	if now != nil {
		current = quantity(now.Value)
	}
	return current + "/" + quantity(target.Value)
}

// share shows a resource metric: a pod's average use, or its average utilization of the request.
func share(target *autoscalingv2.MetricTarget, now *autoscalingv2.MetricValueStatus) string {
	current, wanted := unknown, "<auto>"
	if target.AverageValue != nil {
		if now != nil {
			current = quantity(now.AverageValue)
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

// quantity formats a quantity that may be missing, which Kubernetes shows as <nil>.
func quantity(q *resource.Quantity) string { return q.String() }
