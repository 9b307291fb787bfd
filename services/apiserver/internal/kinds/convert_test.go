package kinds_test

import (
	"slices"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
)

// TestConvertAndDefault converts an autoscaler to its other version and back, and fails to convert it to
// another kind.
func TestConvertAndDefault(t *testing.T) {
	table := scheme.New()
	catalog, err := builtin.Catalog(table, builtin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	v1, v2 := scheme.For[*autoscalingv1.HorizontalPodAutoscaler](table), scheme.For[*autoscalingv2.HorizontalPodAutoscaler](table)
	old := &autoscalingv1.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Name: "h"}, Spec: autoscalingv1.HorizontalPodAutoscalerSpec{MaxReplicas: 5, TargetCPUUtilizationPercentage: new(int32(50))},
	}
	converted, err := catalog.Convert(old, v2)
	if err != nil {
		t.Fatal(err)
	}
	now, ok := converted.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok || now.APIVersion != "autoscaling/v2" || now.Kind != "HorizontalPodAutoscaler" || *now.Spec.Metrics[0].Resource.Target.AverageUtilization != 50 {
		t.Fatalf("got %+v", converted)
	}
	now.Spec.MaxReplicas = 7
	back, err := catalog.Convert(now, v1)
	if err != nil {
		t.Fatal(err)
	}
	if again, ok := back.(*autoscalingv1.HorizontalPodAutoscaler); !ok || *again.Spec.TargetCPUUtilizationPercentage != 50 || again.Spec.MaxReplicas != 7 || old.Spec.MaxReplicas != 5 {
		t.Errorf("got %+v of %+v", back, old)
	}
	if _, err := catalog.Convert(old, scheme.For[*corev1.Pod](table)); err == nil {
		t.Error("an autoscaler became a pod")
	}
	pod := &corev1.Pod{}
	if catalog.Complete(pod); pod.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("got %+v", pod.Spec)
	}
	// A custom kind knows its fields by its schema: what it does not have goes before what is missing comes.
	var order []string
	added := gadget()
	added.Prune = func(_ scheme.Object, how kinds.Pruning) ([]string, error) {
		if !how.KeepNulls {
			t.Error("what is null is removed")
		}
		order = append(order, "prune")
		return nil, nil
	}
	added.Default = func(scheme.Object) { order = append(order, "default") }
	if err := catalog.Install(added); err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(added.GroupVersionKind)
	catalog.Complete(u)
	if !slices.Equal(order, []string{"prune", "default"}) {
		t.Errorf("a custom object was completed by %q", order)
	}
}
