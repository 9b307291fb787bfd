package customresources

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// TestStaleStatus checks that what was judged of an older state of a definition, or of another one of its
// name, is not written.
func TestStaleStatus(t *testing.T) {
	w := newWorld(t)
	seen := w.define("rods rod Rod RodList")
	judged := seen.DeepCopy()
	setCondition(judged, condition{Type: apiextensionsv1.NamesAccepted, Status: apiextensionsv1.ConditionTrue, Reason: "Stale"})
	if _, err := registrytest.Update(w.World, "", seen.Name, "", func(c *crd) { c.Spec.Names.Categories = []string{"all"} }); err != nil {
		t.Fatal(err)
	}
	if err := w.keeper.writeStatus(t.Context(), seen, judged); err != nil {
		t.Fatal(err)
	}
	other := seen.DeepCopy()
	other.UID = "another"
	if _, err := w.keeper.judge(t.Context(), other, condition{Type: apiextensionsv1.Terminating, Status: apiextensionsv1.ConditionTrue, Reason: "Stale"}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if got := registrytest.Get[*crd](w.World, "", seen.Name); len(got.Status.Conditions) > 0 {
		t.Errorf("got %s", conditions(got))
	}
}

// TestSameInEtcd checks which changes of a definition make cached objects of it wrong.
func TestSameInEtcd(t *testing.T) {
	base := rods()
	for name, c := range map[string]struct {
		change func(*crd)
		same   bool
	}{
		"nothing": {func(*crd) {}, true},
		"a column": {func(c *crd) {
			c.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "a"}}
		}, true},
		"names":    {func(c *crd) { c.Spec.Names.Categories = []string{"all"} }, true},
		"a schema": {func(c *crd) { c.Spec.Versions[0].Schema.OpenAPIV3Schema.Type = "array" }, false},
		"storage":  {func(c *crd) { c.Spec.Versions[0].Storage = false }, false},
		"unknown":  {func(c *crd) { c.Spec.PreserveUnknownFields = true }, false},
		"conversion": {func(c *crd) {
			c.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter}
		}, false},
		"a version": {func(c *crd) {
			c.Spec.Versions = append(c.Spec.Versions, apiextensionsv1.CustomResourceDefinitionVersion{Name: "v2"})
		}, false},
	} {
		next := base.DeepCopy()
		c.change(next)
		if got := sameInEtcd(base, next); got != c.same {
			t.Errorf("%s: got %v", name, got)
		}
	}
	next := base.DeepCopy()
	next.DeletionTimestamp = &metav1.Time{}
	if sameForClients(base, next) || !sameForClients(base, base.DeepCopy()) {
		t.Error("a definition that is being deleted serves the same, or an equal one does not")
	}
}

func rods() *crd {
	one := named("example.org", "rods rod Rod RodList", "rods rod Rod RodList")
	one.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"}},
	}}
	return one
}
