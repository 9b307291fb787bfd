package customresources

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// present returns the definitions as etcd has them now.
func (w *world) present() []*crd {
	w.T.Helper()
	if err := w.Feeds.Of(w.keeper.kind).WaitFor(w.T.Context(), w.revision()); err != nil {
		w.T.Fatal(err)
	}
	return definitionsOf(w.Feeds.Of(w.keeper.kind).CachedIn(fabric.View{}))
}

// erase removes a definition from etcd.
func (w *world) erase(name string) {
	w.T.Helper()
	if _, err := w.Store.Delete(w.T.Context(), w.keeper.kind, "", name, func(scheme.Object) error { return nil }); err != nil {
		w.T.Fatal(err)
	}
}

// TestBuiltInNames checks that a definition that wants the names of a built-in kind says that it is not
// served, leaves that kind alone, and is not read over and over.
func TestBuiltInNames(t *testing.T) {
	leases := schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	w := newWorld(t)
	one := w.definition("coordination.k8s.io", "leases lease Lease LeaseList")
	one.Annotations = map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "unapproved, a test"}
	registrytest.Create(w.World, "", one)
	lease := w.Table.Resource(leases)
	for range 2 { // The second time nothing is left to write.
		if w.keeper.keep(t.Context(), w.present()) {
			t.Fatal("the keeper has nothing to try again")
		}
	}
	got := w.present()[0]
	found := apihelpers.FindCRDCondition(got, apiextensionsv1.Established)
	if found == nil || found.Status != apiextensionsv1.ConditionFalse || found.Reason != "NotServed" || !strings.Contains(found.Message, "the table has it already") {
		t.Errorf("got %s", conditions(got))
	}
	if w.Table.Resource(leases) != lease || lease.Custom {
		t.Error("the built-in kind was replaced")
	}
	before := w.keeper.refused[got.UID]
	if before.settled != got.ResourceVersion {
		t.Errorf("the refusal is settled at %q, want %q", before.settled, got.ResourceVersion)
	}
	if w.keeper.keep(t.Context(), w.present()); !w.keeper.refused[got.UID].again.Equal(before.again) {
		t.Error("the definition is read again at once")
	}
	if _, err := registrytest.Update(w.World, "", one.Name, "", func(c *crd) { c.Spec.Names.Categories = []string{"all"} }); err != nil {
		t.Fatal(err)
	}
	if w.keeper.keep(t.Context(), w.present()); w.keeper.refused[got.UID].again.Equal(before.again) {
		t.Error("a changed definition is not read again")
	}
	w.erase(one.Name)
	if w.keeper.keep(t.Context(), w.present()); len(w.keeper.refused) != 0 {
		t.Error("the keeper remembers a definition that is gone")
	}
}

// TestNamesOfAGoneDefinition checks that names are free as soon as their owner is gone.
func TestNamesOfAGoneDefinition(t *testing.T) {
	w := newWorld(t)
	w.define("rods rod Rod RodList")
	for range 2 {
		w.keeper.keep(t.Context(), w.present())
	}
	if w.kind("rods") == nil {
		t.Fatal("the first definition is not served")
	}
	w.erase("rods.example.org")
	w.define("sticks rod Rod RodList")
	if !w.keeper.keep(t.Context(), w.present()) || w.kind("sticks") == nil || w.kind("rods") != nil {
		t.Error("the second definition is not served at once, or the first still is")
	}
}

// TestUnserved checks what the status of a definition says that cannot be installed.
func TestUnserved(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*crd)
		want   string
	}{
		"new":           {func(*crd) {}, "Established=False NotServed: no version is stored"},
		"established":   {func(c *crd) { setCondition(c, condition{Type: "Established", Status: "True", Reason: "Is"}) }, "Established=True Is: "},
		"being deleted": {func(c *crd) { c.DeletionTimestamp = &metav1.Time{} }, ""},
	} {
		one := named("example.org", "rods rod Rod RodList", "rods rod Rod RodList")
		c.change(one)
		before := conditions(one)
		if changed := unserved(one, errors.New("no version is stored")); conditions(one) != c.want || changed != (before != c.want) {
			t.Errorf("%s: got %s, changed: %v", name, conditions(one), changed)
		}
	}
}
