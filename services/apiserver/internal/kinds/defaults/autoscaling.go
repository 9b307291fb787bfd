package defaults

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
)

// Kubernetes' defaults of autoscalers.
const (
	cpuUtilization  int32 = 80
	scalingPeriod   int32 = 15
	scalingPercent  int32 = 100
	scalingUpByPods int32 = 4
)

// HorizontalPodAutoscaler fills an autoscaler. Of the way in which it scales down, only how long
// it waits stays open: that is the controller's to choose.
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

// HorizontalPodAutoscalerV1 fills an autoscaler in its first version. Its metrics get their
// default when it becomes one of the second, which has them all.
func HorizontalPodAutoscalerV1(a *autoscalingv1.HorizontalPodAutoscaler) {
	set(&a.Spec.MinReplicas, int32(replicas))
}
