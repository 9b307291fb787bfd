package autoscaling

import (
	"math/rand"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func quantity(text string) *resource.Quantity { return new(resource.MustParse(text)) }

func TestAnnotations(t *testing.T) {
	at := metav1.NewTime(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
	a := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{"own": "kept", metricsAnnotation: "forged"}},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MinReplicas: new(int32(2)), MaxReplicas: 5,
			Metrics: []autoscalingv2.MetricSpec{
				{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "memory", Target: autoscalingv2.MetricTarget{Type: "AverageValue", AverageValue: quantity("1Gi")}}},
				{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(70))}}},
			},
			Behavior: &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: &autoscalingv2.HPAScalingRules{
				StabilizationWindowSeconds: new(int32(5)), SelectPolicy: new(autoscalingv2.MaxChangePolicySelect), Tolerance: quantity("100m"),
				Policies: []autoscalingv2.HPAScalingPolicy{{Type: "Pods", Value: 4, PeriodSeconds: 15}},
			}},
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			CurrentReplicas: 3, DesiredReplicas: 4, ObservedGeneration: new(int64(1)), LastScaleTime: &at,
			CurrentMetrics: []autoscalingv2.MetricStatus{{Type: "Resource", Resource: &autoscalingv2.ResourceMetricStatus{Name: "cpu", Current: autoscalingv2.MetricValueStatus{AverageUtilization: new(int32(50)), AverageValue: quantity("5m")}}}},
			Conditions:     []autoscalingv2.HorizontalPodAutoscalerCondition{{Type: "AbleToScale", Status: "True", LastTransitionTime: at, Reason: "r", Message: "m"}},
		},
	}
	want := &autoscalingv1.HorizontalPodAutoscaler{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: metav1.ObjectMeta{Name: "x", Annotations: map[string]string{
			"own":                "kept",
			metricsAnnotation:    `[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"1Gi"}}]`,
			currentAnnotation:    `[{"type":"Resource","resource":{"name":"cpu","currentAverageUtilization":50,"currentAverageValue":"5m"}}]`,
			conditionsAnnotation: `[{"type":"AbleToScale","status":"True","lastTransitionTime":"2030-01-01T00:00:00Z","reason":"r","message":"m"}]`,
			behaviorAnnotation:   `{"ScaleUp":{"StabilizationWindowSeconds":5,"SelectPolicy":"Max","Policies":[{"Type":"Pods","Value":4,"PeriodSeconds":15}],"Tolerance":"100m"},"ScaleDown":null}`,
		}},
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, MinReplicas: new(int32(2)), MaxReplicas: 5,
			TargetCPUUtilizationPercentage: new(int32(70)),
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			CurrentReplicas: 3, DesiredReplicas: 4, ObservedGeneration: new(int64(1)), LastScaleTime: &at, CurrentCPUUtilizationPercentage: new(int32(50)),
		},
	}
	got := autoscalerToV1(a)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a.Annotations[metricsAnnotation] != "forged" {
		t.Error("the argument was changed")
	}
	back := autoscalerToV2(got)
	delete(a.Annotations, metricsAnnotation)
	a.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	if !apiequality.Semantic.DeepEqual(a, back) {
		t.Errorf("the autoscaler differs after the round trip:\n%s", cmp.Diff(a, back))
	}
	got.Annotations = map[string]string{metricsAnnotation: "{", behaviorAnnotation: "[]", conditionsAnnotation: "1", currentAnnotation: "x"}
	back = autoscalerToV2(got)
	if len(back.Annotations) > 0 || len(back.Spec.Metrics) != 1 || back.Spec.Behavior != nil || len(back.Status.Conditions) > 0 ||
		*back.Status.CurrentMetrics[0].Resource.Current.AverageUtilization != 50 {
		t.Errorf("got %+v from malformed annotations", back)
	}
}

// TestTwoTargets checks that, of two CPU metrics, one goes into the field and the other into the
// annotation.
func TestTwoTargets(t *testing.T) {
	cpu := func(percent int32) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: "cpu", Target: autoscalingv2.MetricTarget{Type: "Utilization", AverageUtilization: &percent}}}
	}
	a := &autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{Metrics: []autoscalingv2.MetricSpec{cpu(50), cpu(60)}}}
	first := autoscalerToV1(a)
	if back := autoscalerToV2(first); *first.Spec.TargetCPUUtilizationPercentage != 50 || len(back.Spec.Metrics) != 2 {
		t.Errorf("got target %d, and %d metrics after the round trip", *first.Spec.TargetCPUUtilizationPercentage, len(back.Spec.Metrics))
	}
}

// maker creates autoscalers of the second version as they may be stored.
type maker struct{ *rand.Rand }

func (m maker) coin() bool { return m.Intn(2) == 0 }

func (m maker) identifier() autoscalingv2.MetricIdentifier {
	id := autoscalingv2.MetricIdentifier{Name: []string{"a", "b"}[m.Intn(2)]}
	if m.coin() {
		id.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"x": "y"}}
	}
	return id
}

func (m maker) quantity() *resource.Quantity {
	return quantity([]string{"1", "500m", "1Gi"}[m.Intn(3)])
}

func (m maker) value() autoscalingv2.MetricTarget {
	if m.coin() {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: m.quantity()}
	}
	return m.averageValue()
}

func (m maker) averageValue() autoscalingv2.MetricTarget {
	return autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: m.quantity()}
}

func (m maker) average() autoscalingv2.MetricTarget {
	if m.coin() {
		return autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(1 + m.Intn(100)))}
	}
	return m.averageValue()
}

func (m maker) metric() autoscalingv2.MetricSpec {
	switch m.Intn(5) {
	case 0:
		return autoscalingv2.MetricSpec{Type: "Object", Object: &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: "Service", Name: "s"}, Metric: m.identifier(), Target: m.value(),
		}}
	case 1:
		return autoscalingv2.MetricSpec{Type: "Pods", Pods: &autoscalingv2.PodsMetricSource{Metric: m.identifier(), Target: m.averageValue()}}
	case 2:
		return autoscalingv2.MetricSpec{Type: "External", External: &autoscalingv2.ExternalMetricSource{Metric: m.identifier(), Target: m.value()}}
	case 3:
		return autoscalingv2.MetricSpec{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricSource{Name: "cpu", Container: "c", Target: m.average()}}
	}
	return autoscalingv2.MetricSpec{Type: "Resource", Resource: &autoscalingv2.ResourceMetricSource{Name: []corev1.ResourceName{"cpu", "memory"}[m.Intn(2)], Target: m.average()}}
}

func (m maker) current() autoscalingv2.MetricStatus {
	switch m.Intn(5) {
	case 0:
		return autoscalingv2.MetricStatus{Type: "Object", Object: &autoscalingv2.ObjectMetricStatus{Metric: m.identifier(), Current: autoscalingv2.MetricValueStatus{Value: m.quantity(), AverageValue: m.quantity()}}}
	case 1:
		return autoscalingv2.MetricStatus{Type: "Pods", Pods: &autoscalingv2.PodsMetricStatus{Metric: m.identifier(), Current: autoscalingv2.MetricValueStatus{AverageValue: m.quantity()}}}
	case 2:
		return autoscalingv2.MetricStatus{Type: "External", External: &autoscalingv2.ExternalMetricStatus{Metric: m.identifier(), Current: autoscalingv2.MetricValueStatus{Value: m.quantity()}}}
	case 3:
		return autoscalingv2.MetricStatus{Type: "ContainerResource", ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{Name: "cpu", Container: "c", Current: autoscalingv2.MetricValueStatus{AverageValue: m.quantity(), AverageUtilization: new(int32(5))}}}
	}
	return autoscalingv2.MetricStatus{Type: "Resource", Resource: &autoscalingv2.ResourceMetricStatus{Name: "memory", Current: autoscalingv2.MetricValueStatus{AverageValue: m.quantity()}}}
}

// FuzzAutoscaler checks that converting an autoscaler to the first version and back changes only
// the order of its metrics, and that a second round trip changes nothing.
func FuzzAutoscaler(f *testing.F) {
	for seed := range int64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed int64) {
		m := maker{rand.New(rand.NewSource(seed))}
		a := &autoscalingv2.HorizontalPodAutoscaler{}
		a.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
		for range m.Intn(4) {
			a.Spec.Metrics = append(a.Spec.Metrics, m.metric())
		}
		for range m.Intn(4) {
			a.Status.CurrentMetrics = append(a.Status.CurrentMetrics, m.current())
		}
		if m.coin() {
			a.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{SelectPolicy: new(autoscalingv2.DisabledPolicySelect)}}
		}
		once := autoscalerToV2(autoscalerToV1(a))
		twice := autoscalerToV2(autoscalerToV1(once))
		if !apiequality.Semantic.DeepEqual(once, twice) {
			t.Fatalf("the second round trip changes the autoscaler:\n%s", cmp.Diff(once, twice))
		}
		if len(once.Spec.Metrics) != len(a.Spec.Metrics) {
			t.Fatalf("got %d metrics before the round trip, %d after it", len(a.Spec.Metrics), len(once.Spec.Metrics))
		}
		for _, metric := range a.Spec.Metrics {
			found := false
			for _, other := range once.Spec.Metrics {
				found = found || apiequality.Semantic.DeepEqual(metric, other)
			}
			if !found {
				t.Fatalf("the round trip lost %+v", metric)
			}
		}
		once.Spec.Metrics = a.Spec.Metrics
		if !apiequality.Semantic.DeepEqual(a, once) {
			t.Fatalf("the autoscaler differs after the round trip:\n%s", cmp.Diff(a, once))
		}
	})
}

// TestCostlyMetrics ignores metrics in an annotation with a quantity that takes minutes to parse.
func TestCostlyMetrics(t *testing.T) {
	var metrics []autoscalingv1.MetricSpec
	a := &autoscalingv1.HorizontalPodAutoscaler{}
	for amount, want := range map[string]bool{"1e-300000000": false, "1e3": true} {
		a.Annotations = map[string]string{
			metricsAnnotation: `[{"type":"Resource","resource":{"name":"memory","targetAverageValue":"` + amount + `"}}]`,
		}
		if annotated(a, metricsAnnotation, &metrics) != want {
			t.Errorf("%s: got %v", amount, !want)
		}
	}
}
