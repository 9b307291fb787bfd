package kinds_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
)

func gadget() *kinds.Definition {
	return &kinds.Definition{Kind: &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}, Custom: true,
		Resource: "gadgets", StoragePrefix: "example.org/gadgets",
	}}
}

// TestCatalog checks that table and definitions never disagree: a kind that can be found has its
// definition, and one that was refused or removed has none.
func TestCatalog(t *testing.T) {
	catalog, err := builtin.Catalog(scheme.New(), builtin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	table := catalog.Table()
	for _, kind := range table.Kinds() {
		if found := catalog.Of(kind); found == nil || found.Kind != kind || catalog.Find(kind.GroupVersionKind) != found {
			t.Errorf("%s has the definition %v", kind.GroupVersionKind, found)
		}
	}
	added := gadget()
	if err := catalog.Install(added); err != nil {
		t.Fatal(err)
	}
	twice := gadget()
	if err := catalog.Install(twice); err == nil || catalog.Of(twice.Kind) != nil || catalog.Find(added.GroupVersionKind) != added {
		t.Errorf("a kind was installed twice: %v", err)
	}
	if err := catalog.Install(&kinds.Definition{}); err == nil {
		t.Error("a definition without a kind was installed")
	}
	if !catalog.Remove(added.GroupVersionKind) || catalog.Remove(added.GroupVersionKind) {
		t.Error("a kind is not removed once")
	}
	if catalog.Remove(schema.GroupVersionKind{Version: "v1", Kind: "Pod"}) {
		t.Error("a built-in kind was removed")
	}
	if catalog.Of(added.Kind) != nil || catalog.Find(added.GroupVersionKind) != nil {
		t.Error("a removed kind still has a definition")
	}
}

// TestEveryStoredKindNeedsADefinition checks that a catalog without one is refused.
func TestEveryStoredKindNeedsADefinition(t *testing.T) {
	definitions := builtin.All(builtin.Config{})
	delete(definitions, schema.GroupVersionKind{Version: "v1", Kind: "Pod"})
	if _, err := kinds.NewCatalog(scheme.New(), definitions); err == nil {
		t.Error("a catalog was built without a definition of pods")
	}
}

// TestDefaults checks that a kind that is stored as another one has the stored kind's defaults.
func TestDefaults(t *testing.T) {
	catalog, err := builtin.Catalog(scheme.New(), builtin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	event := catalog.Find(schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"})
	stored := catalog.Find(event.Storage)
	if stored == event || (catalog.Defaults(event.Kind) == nil) != (stored.Default == nil) {
		t.Error("the defaults are not those of the stored kind")
	}
	if catalog.Defaults(gadget().Kind) != nil {
		t.Error("a kind that is not served has defaults")
	}
}

// TestColumnsOfAnswers checks that the columns of a kind that only subresources have are found, and
// that a stored kind is not found among those.
func TestColumnsOfAnswers(t *testing.T) {
	catalog, err := builtin.Catalog(scheme.New(), builtin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	scale := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	if catalog.Find(scale) != nil || catalog.Columns(scale) == nil {
		t.Error("scales are served, or have no columns")
	}
	pod := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}
	if got := catalog.Columns(pod); got == nil || got != catalog.Find(pod).Columns {
		t.Error("the columns of pods are not those of their definition")
	}
	added := gadget()
	if catalog.Columns(added.GroupVersionKind) != nil {
		t.Error("a kind that is not served has columns")
	}
}
