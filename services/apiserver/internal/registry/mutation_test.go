package registry_test

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/autoscaling/scale"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// TestWhatPluginsMayChange has a plugin change a scale, which changes the workload, and move objects to
// another namespace, which is refused.
func TestWhatPluginsMayChange(t *testing.T) {
	t.Parallel()
	meddle := func(_ context.Context, req *admission.Request) error {
		if s, ok := req.Object.(*autoscalingv1.Scale); ok {
			s.Spec.Replicas++
		}
		if req.Object != nil && req.Object.GetLabels()["move"] != "" {
			req.Object.SetNamespace("kube-system")
		}
		return nil
	}
	w := newWorld(t, func(c *registrytest.Config) { c.Admission = []admission.Plugin{{Name: "Meddler", Mutate: meddle}} })
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}}, Spec: newPod("p").Spec},
	}}
	create(w, "default", d)
	changed, err := scale.Update(t.Context(), resource[*appsv1.Deployment](w), "default", "d", func(s *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		s.Spec.Replicas = 3
		return s, nil
	}, registry.UpdateOptions{})
	if err != nil || changed.Spec.Replicas != 4 || *get[*appsv1.Deployment](w, "default", "d").Spec.Replicas != 4 {
		t.Errorf("got %+v, %v, want 4 replicas", changed, err)
	}
	pod := newPod("p")
	pod.Labels = map[string]string{"move": "yes"}
	if _, err := resource[*corev1.Pod](w).Create(t.Context(), "default", pod, metav1.CreateOptions{}); !apierrors.IsBadRequest(err) {
		t.Errorf("a create in another namespace: %v", err)
	}
	create(w, "default", newPod("q"))
	if _, err := update(w, "default", "q", "", func(p *corev1.Pod) { p.Labels = map[string]string{"move": "yes"} }); !apierrors.IsBadRequest(err) {
		t.Errorf("an update to another namespace: %v", err)
	}
}
