package defaults

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// Kubernetes' defaults for autoscalers.
const (
	cpuUtilization  int32 = 80
	scalingPeriod   int32 = 15
	scalingPercent  int32 = 100
	scalingUpByPods int32 = 4
)

// HorizontalPodAutoscaler sets the defaults of an autoscaler. It leaves the stabilization window
// for scaling down unset: the controller chooses it.
func HorizontalPodAutoscaler(a *autoscalingv2.HorizontalPodAutoscaler) {
	set(&a.Spec.MinReplicas, int32(replicas))
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
	set(&b.ScaleUp.StabilizationWindowSeconds, int32(0))
	if b.ScaleDown == nil {
		b.ScaleDown = &autoscalingv2.HPAScalingRules{}
	}
	scalingRules(b.ScaleUp, pods, percent)
	scalingRules(b.ScaleDown, percent)
}

func scalingRules(rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	set(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = policies
	}
}

// HorizontalPodAutoscalerV1 sets the defaults of an autoscaling/v1 autoscaler. Its metrics get
// their default on conversion to v2, which has fields for all of them.
func HorizontalPodAutoscalerV1(a *autoscalingv1.HorizontalPodAutoscaler) {
	set(&a.Spec.MinReplicas, int32(replicas))
}
