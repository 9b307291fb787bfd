package autoscaling

import (
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

type hpa = *autoscalingv2.HorizontalPodAutoscaler

func autoscaler() hpa {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "default"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MaxReplicas: 5,
	}}
}

func with(metrics ...autoscalingv2.MetricSpec) func(hpa) {
	return func(a hpa) { a.Spec.Metrics = metrics }
}

func behaving(rules autoscalingv2.HPAScalingRules) func(hpa) {
	return func(a hpa) { a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &rules} }
}

func TestHorizontalPodAutoscaler(t *testing.T) {
	q := func(text string) *resource.Quantity { return new(resource.MustParse(text)) }
	name := autoscalingv2.MetricIdentifier{Name: "requests"}
	service := autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "Service", Name: "s"}
	value := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: q("1")}
	averageValue := autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: q("1")}
	use := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(5))}
	const m = "spec.metrics[0]."
	for _, tc := range []struct {
		name   string
		change func(hpa)
		want   []string
	}{
		{"plain", func(hpa) {}, nil},
		{"no pods", func(a hpa) { a.Spec.MinReplicas, a.Spec.MaxReplicas = new(int32(0)), 0 }, []string{
			"spec.maxReplicas: Required value",
			"spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
		}},
		{"fewer than no pods", func(a hpa) { a.Spec.MinReplicas, a.Spec.MaxReplicas = new(int32(-2)), -1 }, []string{
			"spec.minReplicas: Invalid value: -2: must be greater than or equal to 0", "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
		}},
		{"down to no pods", func(a hpa) {
			a.Spec.MinReplicas = new(int32(0))
			with(autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{Metric: name, Target: value}})(a)
		}, nil},
		{"less than least", func(a hpa) { a.Spec.MinReplicas = new(int32(6)) }, []string{"spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"}},
		{"no target", func(a hpa) { a.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{} }, []string{
			"spec.scaleTargetRef.kind: Required value", "spec.scaleTargetRef.name: Required value", `spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`,
		}},
		{"target", func(a hpa) {
			a.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "a/b/c", Kind: "..", Name: "a/b"}
		}, []string{
			`spec.scaleTargetRef.kind: Invalid value: "..": may not be '..'`, `spec.scaleTargetRef.name: Invalid value: "a/b": may not contain '/'`,
			`spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`,
		}},
		{"controller", func(a hpa) {
			a.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "v1", Kind: "ReplicationController", Name: "r"}
		}, nil},
		{"no type", with(autoscalingv2.MetricSpec{}), []string{
			m + "type: Required value: must specify a metric source type",
			m + `type: Unsupported value: "": supported values: "ContainerResource", "External", "Object", "Pods", "Resource"`,
		}},
		{"no source", with(autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType}), []string{m + "pods: Required value: must populate information for the given metric source"}},
		{"two sources", with(autoscalingv2.MetricSpec{
			Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: name, Target: averageValue}, Resource: &autoscalingv2.ResourceMetricSource{},
		}), []string{m + "resource: Forbidden: must populate the given metric source only"}},
		{"object", with(autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{DescribedObject: service, Metric: name, Target: value}}), nil},
		{"bad object", with(autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{}}), []string{
			m + "object.describedObject.kind: Required value", m + "object.describedObject.name: Required value", m + "object.metric.name: Required value: must specify a metric name",
			m + "object.target.type: Required value: must specify a metric target type", m + `object.target.type: Invalid value: "": must be either Utilization, Value, or AverageValue`,
			m + "object.target.averageValue: Required value: must set either a target value or averageValue",
		}},
		{"external", with(autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: "a%b"}, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: q("0"), AverageValue: q("-1")},
		}}), []string{
			m + `external.metric.name: Invalid value: "a%b": may not contain '%'`, m + `external.target.value: Invalid value: "0": must be positive`,
			m + `external.target.averageValue: Invalid value: "-1": must be positive`,
			m + "external.target.value: Forbidden: may not set both a target value for metric and a per-pod target",
		}},
		{"external without target", with(autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
			Metric: name, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType},
		}}), []string{m + "external.target.averageValue: Required value: must set either a target value for metric or a per-pod target"}},
		{"pods", with(autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{Metric: name, Target: value}}), []string{
			m + "pods.target.averageValue: Required value: must specify a positive target averageValue",
		}},
		{"resource", with(autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(0)), AverageValue: q("1")},
		}}), []string{
			m + "resource.name: Required value: must specify a resource name", m + "resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
			m + "resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
		}},
		{"resource without target", with(autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType},
		}}), []string{m + "resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization"}},
		{"container", with(autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{
			Name: "pods", Container: "a.b", Target: use,
		}}), []string{
			m + `containerResource.name: Invalid value: "pods": must be a standard resource for containers`,
			m + `containerResource.container: Invalid value: "a.b": must not contain dots`,
		}},
		{"nameless container", with(autoscalingv2.MetricSpec{Type: autoscalingv2.ContainerResourceMetricSourceType, ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Target: use}}), []string{
			m + "containerResource.name: Required value: must specify a resource name", m + "containerResource.container: Required value: must specify a container",
		}},
		{"behavior", behaving(autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(3600)), Tolerance: q("50m")}), nil},
		{"bad behavior", behaving(autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(3601)), SelectPolicy: new(autoscalingv2.ScalingPolicySelect("Odd")), Tolerance: q("-1"),
			Policies: []autoscalingv2.HPAScalingPolicy{{Type: "Odd"}, {Type: "Pods", Value: 1, PeriodSeconds: 1801}},
		}), []string{
			"spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
			`spec.behavior.scaleDown.selectPolicy: Unsupported value: "Odd": supported values: "Disabled", "Max", "Min"`,
			`spec.behavior.scaleDown.policies[0].type: Unsupported value: "Odd": supported values: "Percent", "Pods"`,
			"spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero",
			"spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 0: must be greater than zero",
			"spec.behavior.scaleDown.policies[1].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
			`spec.behavior.scaleDown.tolerance: Invalid value: "-1": must be greater than or equal to 0`,
		}},
		{"no policies", behaving(autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(-1)), Policies: []autoscalingv2.HPAScalingPolicy{}}), []string{
			"spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero",
			"spec.behavior.scaleDown.policies: Required value: must specify at least one Policy",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := autoscaler()
			tc.change(a)
			defaultHorizontalPodAutoscaler(a)
			errortest.Exactly(t, validateHorizontalPodAutoscaler(a), tc.want...)
		})
	}
	old := autoscaler()
	old.Spec.ScaleTargetRef.APIVersion, old.Spec.MinReplicas = "", new(int32(0))
	old.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{APIVersion: "a/b/c", Kind: "Service", Name: "s"}, Metric: name, Target: value,
	}}}
	errortest.Exactly(t, validateHorizontalPodAutoscalerUpdate(old, old))
	moved := old.DeepCopy()
	moved.Spec.ScaleTargetRef.Kind = "ReplicaSet"
	errortest.Exactly(t, validateHorizontalPodAutoscalerUpdate(moved, old), `spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`)
	errortest.Exactly(t, validateHorizontalPodAutoscalerUpdate(old, autoscaler()),
		`spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group`,
		`spec.metrics[0].object.describedObject.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c`)
	old.Status.CurrentReplicas, old.Status.DesiredReplicas = -1, -2
	old.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{{ObservedGeneration: new(int64(0))}, {ObservedGeneration: new(int64(-1))}}
	errortest.Exactly(t, validateHorizontalPodAutoscalerStatus(old, old),
		"status.conditions[1].observedGeneration: Invalid value: -1: must be greater than or equal to 0", "status.currentReplicas: Invalid value: -1: must be greater than or equal to 0",
		"status.desiredReplicas: Invalid value: -2: must be greater than or equal to 0")
}
