package autoscaling

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestAutoscalerVersions checks that the first version gets the same defaults and checks as the
// second.
func TestAutoscalerVersions(t *testing.T) {
	s := HorizontalPodAutoscalerV1()
	a := kindtest.Sample[*autoscalingv1.HorizontalPodAutoscaler](t, s)
	a.Spec.TargetCPUUtilizationPercentage = nil
	s.PrepareForCreate(a)
	if p := a.Spec.TargetCPUUtilizationPercentage; p == nil || *p != 80 {
		t.Errorf("without a target: got %v", p)
	}
	stored := kindtest.Convert[*autoscalingv2.HorizontalPodAutoscaler](t, s.ToStored, a)
	if len(stored.Spec.Metrics) != 1 || *stored.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 {
		t.Errorf("got stored spec %+v", stored.Spec)
	}
	if back := kindtest.Convert[*autoscalingv1.HorizontalPodAutoscaler](t, s.FromStored, stored); !apiequality.Semantic.DeepEqual(back.Spec, a.Spec) {
		t.Errorf("got spec %+v after the round trip", back.Spec)
	}
	a.Spec.TargetCPUUtilizationPercentage, a.Spec.MaxReplicas = new(int32(0)), 0
	var got []string
	for _, err := range s.Validate(a) {
		got = append(got, err.Error())
	}
	want := []string{
		"spec.maxReplicas: Required value", "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
		"spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestDefaultTargets checks when an autoscaler of the first version targets a CPU utilization.
func TestDefaultTargets(t *testing.T) {
	for name, tc := range map[string]struct {
		given      *int32
		annotation string
		want       int32
	}{
		"no metric":      {want: 80},
		"a target":       {given: new(int32(5)), want: 5},
		"no other":       {annotation: "[]", want: 80},
		"rubbish":        {annotation: "{", want: 80},
		"another metric": {annotation: `[{"type":"Pods","pods":{"metricName":"m","targetAverageValue":"1"}}]`},
	} {
		t.Run(name, func(t *testing.T) {
			a := &autoscalingv1.HorizontalPodAutoscaler{Spec: autoscalingv1.HorizontalPodAutoscalerSpec{TargetCPUUtilizationPercentage: tc.given}}
			if tc.annotation != "" {
				a.Annotations = map[string]string{metricsAnnotation: tc.annotation}
			}
			defaultHorizontalPodAutoscalerV1(a)
			got := int32(0)
			if p := a.Spec.TargetCPUUtilizationPercentage; p != nil {
				got = *p
			}
			if got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestDefaultHorizontalPodAutoscaler(t *testing.T) {
	a := &autoscalingv2.HorizontalPodAutoscaler{}
	defaultHorizontalPodAutoscaler(a)
	if len(a.Spec.Metrics) != 1 || *a.Spec.Metrics[0].Resource.Target.AverageUtilization != 80 || *a.Spec.MinReplicas != 1 || a.Spec.Behavior != nil {
		t.Errorf("got spec %+v", a.Spec)
	}
	policy := func(kind autoscalingv2.HPAScalingPolicyType, value int32) autoscalingv2.HPAScalingPolicy {
		return autoscalingv2.HPAScalingPolicy{Type: kind, Value: value, PeriodSeconds: 15}
	}
	a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{SelectPolicy: new(autoscalingv2.MinChangePolicySelect)}}
	defaultHorizontalPodAutoscaler(a)
	want := &autoscalingv2.HorizontalPodAutoscalerBehavior{
		ScaleUp: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: new(int32(0)), SelectPolicy: new(autoscalingv2.MinChangePolicySelect), Policies: []autoscalingv2.HPAScalingPolicy{
			policy(autoscalingv2.PodsScalingPolicy, 4), policy(autoscalingv2.PercentScalingPolicy, 100),
		}},
		ScaleDown: &autoscalingv2.HPAScalingRules{SelectPolicy: new(autoscalingv2.MaxChangePolicySelect), Policies: []autoscalingv2.HPAScalingPolicy{policy(autoscalingv2.PercentScalingPolicy, 100)}},
	}
	if diff := cmp.Diff(want, a.Spec.Behavior); diff != "" {
		t.Errorf("the behavior (-want +got):\n%s", diff)
	}
}

func TestAutoscalerGenerations(t *testing.T) {
	obj := kindtest.Sample[*autoscalingv2.HorizontalPodAutoscaler](t, HorizontalPodAutoscaler())
	changed := obj.DeepCopy()
	changed.Spec.MaxReplicas = 9
	kindtest.Generations(t, HorizontalPodAutoscaler(), obj, changed)
}

func TestFirstVersionGenerations(t *testing.T) {
	obj := kindtest.Sample[*autoscalingv1.HorizontalPodAutoscaler](t, HorizontalPodAutoscalerV1())
	changed := obj.DeepCopy()
	changed.Spec.MaxReplicas = 9
	kindtest.Generations(t, HorizontalPodAutoscalerV1(), obj, changed)
}
