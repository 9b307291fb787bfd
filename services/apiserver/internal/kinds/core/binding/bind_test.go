package binding_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/binding"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func TestBind(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	pods := registrytest.Of[*corev1.Pod](w)
	pod := registrytest.Create(w, "default", registrytest.Pod("web"))
	if nominated := registrytest.SetStatus(w, "web", func(p *corev1.Pod) { p.Status.NominatedNodeName = "n2" }); nominated.Status.NominatedNodeName != "n2" {
		t.Fatalf("the pod is %+v", nominated)
	}
	sent := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: pod.UID, Annotations: map[string]string{"a": "b"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n1"},
	}
	bound, err := binding.Bind(t.Context(), pods, "default", "web", sent, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("binding: %v", err)
	}
	got := registrytest.Get[*corev1.Pod](w, "default", "web")
	if bound.GetResourceVersion() != got.ResourceVersion || got.ResourceVersion == pod.ResourceVersion {
		t.Errorf("the binding gave version %s, the pod has %s", bound.GetResourceVersion(), got.ResourceVersion)
	}
	if got.Spec.NodeName != "n1" || got.Status.NominatedNodeName != "" || got.Annotations["a"] != "b" || len(got.Status.Conditions) != 1 ||
		got.Status.Conditions[0].Type != corev1.PodScheduled || got.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("the bound pod is %+v", got)
	}
	_, err = binding.Bind(t.Context(), pods, "default", "web", sent, metav1.CreateOptions{})
	want := `Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "n1"`
	if !apierrors.IsConflict(err) || err.Error() != want {
		t.Errorf("binding again: %v, want %s", err, want)
	}
	sent.UID = "other"
	if _, err := binding.Bind(t.Context(), pods, "default", "web", sent, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("binding another pod: %v", err)
	}
	if _, err := binding.Bind(t.Context(), pods, "default", "gone", &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "gone"}, Target: sent.Target}, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("binding a missing pod: %v", err)
	}
	if _, err := binding.Bind(t.Context(), pods, "default", "web", &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}}, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("binding to nothing: %v", err)
	}
}

func TestDryRunBinding(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	pods, dry := registrytest.Of[*corev1.Pod](w), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}
	pod := registrytest.Create(w, "default", registrytest.Pod("web"))
	sent := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	gone := sent.DeepCopy()
	gone.Name = "gone"
	if _, err := binding.Bind(t.Context(), pods, "default", "web", sent, dry); err != nil {
		t.Errorf("trying to bind: %v", err)
	}
	if now := registrytest.Get[*corev1.Pod](w, "default", "web"); now.ResourceVersion != pod.ResourceVersion || now.Spec.NodeName != "" {
		t.Errorf("the pod has become %+v", now)
	}
	if _, err := binding.Bind(t.Context(), pods, "default", "gone", gone, dry); !apierrors.IsNotFound(err) {
		t.Errorf("trying to bind a missing pod: %v", err)
	}
	if _, err := binding.Bind(t.Context(), pods, "default", "web", sent, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := binding.Bind(t.Context(), pods, "default", "web", sent, dry); !apierrors.IsConflict(err) {
		t.Errorf("trying to bind a bound pod: %v", err)
	}
}
