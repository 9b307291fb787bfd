package registry_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// TestNamespaceAutoProvision creates an object in a namespace that doesn't exist. The apiserver creates
// the namespace in its own name, as a complete object.
func TestNamespaceAutoProvision(t *testing.T) {
	t.Parallel()
	var creators []string
	see := func(ctx context.Context, req *admission.Request) error {
		who, _ := authn.UserFrom(ctx)
		creators = append(creators, req.Kind.Kind+" by "+who.Name)
		return nil
	}
	w := newWorld(t, func(c *registrytest.Config) {
		c.EnableAdmission = append(c.EnableAdmission, "NamespaceAutoProvision")
		c.Admission = []admission.Plugin{{Name: "Onlooker", Validate: see}}
	})
	creators = nil // Of the plane's own objects.
	maps, namespaces := resource[*corev1.ConfigMap](w), resource[*corev1.Namespace](w)
	ctx := authn.WithUser(t.Context(), authn.User{Name: "alice"})
	book := func(namespace string) *corev1.ConfigMap {
		c := newConfigMap("book")
		c.Namespace = namespace
		return c
	}
	if _, err := maps.Create(ctx, "fresh", book("fresh"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"Namespace by system:apiserver", "ConfigMap by alice"}; !slices.Equal(creators, want) {
		t.Errorf("got %v, want %v", creators, want)
	}
	namespace := get[*corev1.Namespace](w, "", "fresh")
	if !slices.Equal(namespace.Spec.Finalizers, []corev1.FinalizerName{corev1.FinalizerKubernetes}) || namespace.Status.Phase != corev1.NamespaceActive ||
		namespace.Labels[corev1.LabelMetadataName] != "fresh" {
		t.Errorf("got the namespace %+v", namespace)
	}
	_, err := maps.Create(ctx, "dry", book("dry"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if !apierrors.IsNotFound(err) {
		t.Errorf("a dry run: got %v, want not found", err)
	}
	if _, err := namespaces.Get(ctx, "", "dry"); !apierrors.IsNotFound(err) {
		t.Errorf("a dry run has created the namespace: %v", err)
	}
}
