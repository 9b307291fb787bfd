package customresources

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// TestFinalizedElsewhere checks that an apiserver succeeds with a definition that another one has emptied
// before it, and leaves alone a later definition of the same name.
func TestFinalizedElsewhere(t *testing.T) {
	w := newWorld(t)
	w.define("rods rod Rod RodList")
	if _, _, err := registrytest.Of[*crd](w.World).Delete(t.Context(), "", "rods.example.org", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	seen := registrytest.Get[*crd](w.World, "", "rods.example.org")
	if seen.DeletionTimestamp == nil || !apihelpers.CRDHasFinalizer(seen, apiextensionsv1.CustomResourceCleanupFinalizer) {
		t.Fatalf("nothing keeps a deleted definition: %v", seen.ObjectMeta)
	}
	finalize := func(what string) {
		t.Helper()
		if err := w.keeper.finalize(t.Context(), seen); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	finalize("the first apiserver")
	if _, err := registrytest.Of[*crd](w.World).Get(t.Context(), "", "rods.example.org"); !apierrors.IsNotFound(err) {
		t.Fatalf("the definition is still there: %v", err)
	}
	finalize("an apiserver that has not seen its end yet")
	successor := w.define("rods rod Rod RodList")
	finalize("an apiserver that has not seen its successor yet")
	present := registrytest.Get[*crd](w.World, "", "rods.example.org")
	if present.UID != successor.UID || present.ResourceVersion != successor.ResourceVersion {
		t.Errorf("the successor changed: %v, before %v", present.ObjectMeta, successor.ObjectMeta)
	}
}

// TestNobodyRefusesTheEnd checks that admission is not asked about the objects that go with their definition.
func TestNobodyRefusesTheEnd(t *testing.T) {
	w := newWorld(t, func(c *registrytest.Config) {
		c.Admission = []admission.Plugin{{Name: "Refuser", Validate: func(_ context.Context, req *admission.Request) error {
			if req.Verb == admission.Delete && req.Kind.Resource == "rods" {
				return admission.Forbidden(req, errors.New("it must stay"))
			}
			return nil
		}}}
	})
	w.run()
	w.define("rods rod Rod RodList")
	w.until("established", "rods.example.org", established)
	rods := w.Resource(w.kind("rods"))
	rod := &unstructured.Unstructured{}
	rod.SetGroupVersionKind(w.kind("rods").GroupVersionKind)
	rod.SetName("r")
	if _, err := rods.Create(t.Context(), "default", rod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := rods.Delete(t.Context(), "default", "r", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Fatalf("a user deletes it: got %v", err)
	}
	if _, _, err := registrytest.Of[*crd](w.World).Delete(t.Context(), "", "rods.example.org", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(registrytest.Patience); ; <-time.After(5 * time.Millisecond) {
		_, err := registrytest.Of[*crd](w.World).Get(t.Context(), "", "rods.example.org")
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the definition is still there: %v", err)
		}
	}
}
