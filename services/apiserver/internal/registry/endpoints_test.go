package registry_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// TestEndpointsGoWithTheirService checks that this also holds when the last finalizer is removed,
// and that a dry run of the deletion changes nothing.
func TestEndpointsGoWithTheirService(t *testing.T) {
	t.Parallel()
	w := newWorld(t, registrytest.DualStack)
	left := func() int { return len(w.Etcd.Values(t, "/registry/services/endpoints/default/")) }
	for _, name := range []string{"a", "b", "other"} {
		create(w, "default", &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	before := left()
	create(w, "default", newService("a"))
	held := newService("b")
	held.Finalizers = []string{"example.com/x"}
	create(w, "default", held)
	services := resource[*corev1.Service](w)
	remove := func(name string, opts metav1.DeleteOptions) {
		t.Helper()
		if _, _, err := services.Delete(t.Context(), "default", name, opts); err != nil {
			t.Fatal(err)
		}
	}
	remove("a", metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}})
	remove("b", metav1.DeleteOptions{})
	if n := left(); n != before {
		t.Errorf("%d endpoints, want %d: no service is gone", n, before)
	}
	remove("a", metav1.DeleteOptions{})
	if n := left(); n != before-1 {
		t.Errorf("%d endpoints, want %d: one service is gone", n, before-1)
	}
	if _, err := update(w, "default", "b", "", func(s *corev1.Service) { s.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	if n := left(); n != before-2 {
		t.Errorf("%d endpoints, want %d: both services are gone", n, before-2)
	}
}
