package registry_test

import (
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// TestCreationWarnings checks that a client that creates gets the warnings, and one that updates
// does not.
func TestCreationWarnings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var warnings []string
	ctx := admission.WithWarnings(t.Context(), func(text string) { warnings = append(warnings, text) })
	i := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Name: "i", Annotations: map[string]string{"kubernetes.io/ingress.class": "x"}}, Spec: networkingv1.IngressSpec{
		DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}},
	}}
	ingresses := resource[*networkingv1.Ingress](w)
	if _, err := ingresses.Create(ctx, "default", i, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	change := func(current scheme.Object) (scheme.Object, error) {
		obj := current.DeepCopyObject().(*networkingv1.Ingress)
		obj.Labels = map[string]string{"a": "b"}
		return obj, nil
	}
	if _, err := ingresses.Update(ctx, "default", "i", change, registry.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}; !slices.Equal(warnings, want) {
		t.Errorf("the warnings are %q", warnings)
	}
}
