package network

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDrop(t *testing.T) {
	object := func(annotations map[string]string, managers ...string) *corev1.Service {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1", ResourceVersion: "2", Labels: map[string]string{"a": "b"}, Annotations: annotations},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1"},
		}
		for _, m := range managers {
			s.ManagedFields = append(s.ManagedFields, metav1.ManagedFieldsEntry{Manager: m})
		}
		return s
	}
	applied := corev1.LastAppliedConfigAnnotation
	for name, tc := range map[string]struct{ is, want *corev1.Service }{
		"nothing to drop":   {object(map[string]string{"x": "y"}), object(map[string]string{"x": "y"})},
		"no annotations":    {object(nil, "kubectl"), object(nil)},
		"managers, applied": {object(map[string]string{"x": "y", applied: "{}"}, "a", "b"), object(map[string]string{"x": "y"})},
	} {
		for range 2 {
			drop(tc.is)
			if diff := cmp.Diff(tc.want, tc.is); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}
