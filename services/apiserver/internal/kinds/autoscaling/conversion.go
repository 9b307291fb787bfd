package autoscaling

import (
	"encoding/json"
	"maps"
	"reflect"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	libquantity "github.com/garboard/garboard/libs/quantity"
)

// Annotations of an autoscaling/v1 autoscaler for what only v2 has fields for. Their names and
// content are Kubernetes'.
const (
	metricsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	currentAnnotation    = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation   = "autoscaling.alpha.kubernetes.io/behavior"
)

// autoscalerToV1 converts an autoscaler to autoscaling/v1, which has only a field for the CPU
// utilization. Other metrics, the current ones, conditions and behavior become annotations. The
// result shares what a points to.
func autoscalerToV1(a *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.HorizontalPodAutoscaler {
	out := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: a.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(a.Spec.ScaleTargetRef), MinReplicas: a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	out.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	out.Annotations = withoutAutoscaling(a.Annotations)
	annotate := func(key string, value any) {
		data, err := json.Marshal(value)
		if err != nil {
			return // These types cannot fail to encode.
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[key] = string(data)
	}
	var metrics []autoscalingv1.MetricSpec
	for i := range a.Spec.Metrics {
		m := &a.Spec.Metrics[i]
		if utilization := cpuTarget(m); utilization != nil && out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = utilization
			continue
		}
		metrics = append(metrics, metricToV1(m))
	}
	if len(metrics) > 0 {
		annotate(metricsAnnotation, metrics)
	}
	var current []autoscalingv1.MetricStatus
	for i := range a.Status.CurrentMetrics {
		m := &a.Status.CurrentMetrics[i]
		if r := m.Resource; m.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = r.Current.AverageUtilization
		}
		current = append(current, currentToV1(m))
	}
	if len(current) > 0 { // The field has only the percentage.
		annotate(currentAnnotation, current)
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range a.Status.Conditions {
		conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
			Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
		})
	}
	if len(conditions) > 0 {
		annotate(conditionsAnnotation, conditions)
	}
	if a.Spec.Behavior != nil {
		annotate(behaviorAnnotation, behavior{ScaleUp: rulesToV1(a.Spec.Behavior.ScaleUp), ScaleDown: rulesToV1(a.Spec.Behavior.ScaleDown)})
	}
	return out
}

// autoscalerToV2 converts an autoscaler to autoscaling/v2. It drops annotations that AutoscalerToV1
// could not have written. The result shares what a points to.
func autoscalerToV2(a *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: a.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(a.Spec.ScaleTargetRef), MinReplicas: a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			ObservedGeneration: a.Status.ObservedGeneration, LastScaleTime: a.Status.LastScaleTime,
			CurrentReplicas: a.Status.CurrentReplicas, DesiredReplicas: a.Status.DesiredReplicas,
		},
	}
	out.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	out.Annotations = withoutAutoscaling(a.Annotations)
	var metrics []autoscalingv1.MetricSpec
	if annotated(a, metricsAnnotation, &metrics) {
		for i := range metrics {
			out.Spec.Metrics = append(out.Spec.Metrics, metricToV2(&metrics[i]))
		}
	}
	if a.Spec.TargetCPUUtilizationPercentage != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: a.Spec.TargetCPUUtilizationPercentage,
			}},
		})
	}
	var current []autoscalingv1.MetricStatus
	switch {
	case annotated(a, currentAnnotation, &current):
		for i := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, currentToV2(&current[i]))
		}
	case a.Status.CurrentCPUUtilizationPercentage != nil:
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{
				AverageUtilization: a.Status.CurrentCPUUtilizationPercentage,
			}},
		}}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if annotated(a, conditionsAnnotation, &conditions) {
		for _, c := range conditions {
			out.Status.Conditions = append(out.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status, LastTransitionTime: c.LastTransitionTime,
				Reason: c.Reason, Message: c.Message, ObservedGeneration: c.ObservedGeneration,
			})
		}
	}
	var b behavior
	if annotated(a, behaviorAnnotation, &b) && b != (behavior{}) {
		out.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: b.ScaleUp.toV2(), ScaleDown: b.ScaleDown.toV2()}
	}
	return out
}

// annotated decodes an annotation of an autoscaler, and reports whether it has a valid one.
func annotated(a *autoscalingv1.HorizontalPodAutoscaler, key string, value any) bool {
	text, ok := a.Annotations[key]
	if !ok {
		return false
	}
	err := libquantity.JSON([]byte(text), func(data []byte) error {
		return json.Unmarshal(data, reflect.New(reflect.TypeOf(value).Elem()).Interface())
	})
	return err == nil && json.Unmarshal([]byte(text), value) == nil
}

// cpuTarget returns the CPU utilization that a metric targets; nil for any other metric.
func cpuTarget(m *autoscalingv2.MetricSpec) *int32 {
	if r := m.Resource; m.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Target.AverageValue == nil {
		return r.Target.AverageUtilization
	}
	return nil
}

// withoutAutoscaling returns annotations without the ones that stand for fields.
func withoutAutoscaling(annotations map[string]string) map[string]string {
	own := []string{metricsAnnotation, currentAnnotation, conditionsAnnotation, behaviorAnnotation}
	out := maps.Clone(annotations)
	for _, key := range own {
		delete(out, key)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// behavior is the content of the behavior annotation, with Kubernetes' field names.
type behavior struct {
	ScaleUp, ScaleDown *scalingRules
}

type scalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []scalingPolicy
	Tolerance                  *resource.Quantity
}

func (r *scalingRules) toV2() *autoscalingv2.HPAScalingRules {
	if r == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
	}
	return out
}

type scalingPolicy struct {
	Type                 autoscalingv2.HPAScalingPolicyType
	Value, PeriodSeconds int32
}

func rulesToV1(r *autoscalingv2.HPAScalingRules) *scalingRules {
	if r == nil {
		return nil
	}
	out := &scalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, scalingPolicy(p))
	}
	return out
}
