package customresources

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/custom/conversion"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

// nowhere is a resolver without Services.
type nowhere struct{}

func (nowhere) Resolve(context.Context, string, string, int32) (endpoints.Endpoint, error) {
	return endpoints.Endpoint{}, errors.New("no such service")
}

// world is a registry with a keeper.
type world struct {
	*registrytest.World
	keeper *Keeper
}

func newWorld(t *testing.T, change ...func(*registrytest.Config)) *world {
	t.Helper()
	w := &world{World: registrytest.New(t, change...)}
	converters, err := conversion.New(conversion.Config{Resolver: nowhere{}})
	if err != nil {
		t.Fatal(err)
	}
	w.keeper = New(Config{
		Catalog: w.Catalog, Converters: converters, Registry: w.Registry, Feeds: w.Feeds,
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	return w
}

// run runs the keeper until the test ends.
func (w *world) run() {
	w.T.Helper()
	if err := w.keeper.Install(w.T.Context()); err != nil {
		w.T.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.T.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.keeper.Run(ctx) }()
	w.T.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			w.T.Errorf("the keeper ended: %v", err)
		}
	})
}

// define creates a definition with the version v1, which keeps all fields.
func (w *world) define(names string) *crd {
	w.T.Helper()
	return registrytest.Create(w.World, "", w.definition("example.org", names))
}

// definition returns a definition with the version v1, which keeps all fields.
func (w *world) definition(group, names string) *crd {
	w.T.Helper()
	one, all := named(group, names, ""), true
	one.Spec.Scope = apiextensionsv1.NamespaceScoped
	one.Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
		Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
			OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &all},
		},
	}}
	return one
}

// until waits until a definition is as wanted.
func (w *world) until(what, name string, is func(*crd) bool) {
	w.T.Helper()
	var last *crd
	for deadline := time.Now().Add(registrytest.Patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
		obj, err := registrytest.Of[*crd](w.World).Get(w.T.Context(), "", name)
		if err != nil {
			w.T.Fatal(err)
		}
		if last = obj.(*crd); is(last) {
			return
		}
	}
	w.T.Fatalf("%s: %s has %s", what, name, conditions(last))
}

// kind returns the kind of a resource in the catalog; nil if it is not served.
func (w *world) kind(resource string) *scheme.Kind {
	return w.Table.Resource(schema.GroupVersionResource{Group: "example.org", Version: "v1", Resource: resource})
}

func established(c *crd) bool { return apihelpers.IsCRDConditionTrue(c, apiextensionsv1.Established) }

// TestServed follows a definition from its creation, through changes, to its end.
func TestServed(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.define("rods rod Rod RodList r")
	w.until("after its creation", "rods.example.org", established)
	first := w.kind("rods")
	if first == nil || first.ShortNames[0] != "r" {
		t.Fatalf("an established definition is not served: %v", first)
	}
	set := func(what string, change func(*crd), is func(*scheme.Kind) bool) *scheme.Kind {
		t.Helper()
		if _, err := registrytest.Update(w.World, "", "rods.example.org", "", change); err != nil {
			t.Fatal(err)
		}
		var kind *scheme.Kind
		for deadline := time.Now().Add(registrytest.Patience); time.Now().Before(deadline); <-time.After(5 * time.Millisecond) {
			if kind = w.kind("rods"); kind != nil && is(kind) {
				return kind
			}
		}
		t.Fatalf("%s: the kind is %+v", what, kind)
		return nil
	}
	second := set("with other short names", func(c *crd) { c.Spec.Names.ShortNames = []string{"ro"} }, func(k *scheme.Kind) bool { return k.ShortNames[0] == "ro" })
	if second == first {
		t.Error("a kind changed in place")
	}
	third := set("with a column", func(c *crd) {
		c.Spec.Versions[0].AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: "A", Type: "string", JSONPath: ".a"}}
	}, func(k *scheme.Kind) bool {
		return len(w.Catalog.Of(k).Columns.Columns) == 2 && w.Catalog.Of(k).Columns.Columns[1].Name == "A"
	})
	if third != second {
		t.Error("a new column replaces the kind, and ends its watches")
	}
	fourth := set("with a status", func(c *crd) {
		c.Spec.Versions[0].Subresources = &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}}
	}, func(k *scheme.Kind) bool { return k.HasSubresource("status") })
	if fourth.Resource != "rods" {
		t.Errorf("got %+v", fourth)
	}
	if _, _, err := registrytest.Of[*crd](w.World).Delete(t.Context(), "", "rods.example.org", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(registrytest.Patience); w.kind("rods") != nil; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the kind of a deleted definition is served")
		}
	}
	if _, err := registrytest.Of[*crd](w.World).Get(t.Context(), "", "rods.example.org"); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
}

// TestNameConflict checks that the second definition that wants a name gets it once the first is gone.
func TestNameConflict(t *testing.T) {
	w := newWorld(t)
	w.run()
	w.define("rods rod Rod RodList")
	w.until("the first", "rods.example.org", established)
	w.define("sticks rod Rod StickList")
	w.until("the second", "sticks.example.org", func(c *crd) bool {
		return apihelpers.IsCRDConditionFalse(c, apiextensionsv1.NamesAccepted) && apihelpers.IsCRDConditionFalse(c, apiextensionsv1.Established)
	})
	if w.kind("sticks") != nil || w.kind("rods") == nil {
		t.Error("the second definition is served, or the first is not")
	}
	if _, _, err := registrytest.Of[*crd](w.World).Delete(t.Context(), "", "rods.example.org", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("the second without the first", "sticks.example.org", established)
	if w.kind("sticks") == nil {
		t.Error("the second definition is not served")
	}
}

// TestInstall checks that what etcd holds at the start is served when Install returns.
func TestInstall(t *testing.T) {
	w := newWorld(t)
	w.define("rods rod Rod RodList")
	if err := w.Feeds.Of(scheme.For[*crd](w.Table)).WaitFor(t.Context(), w.revision()); err != nil {
		t.Fatal(err)
	}
	if err := w.keeper.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	if kind := w.kind("rods"); kind == nil || w.Resource(kind) == nil {
		t.Errorf("got %v", kind)
	}
	if again := registrytest.Get[*crd](w.World, "", "rods.example.org"); !established(again) {
		t.Error(conditions(again))
	}
}

// TestSettled checks that a definition is looked at again only if it changed, or wants other names.
func TestSettled(t *testing.T) {
	w := newWorld(t)
	w.define("rods rod Rod RodList")
	w.define("sticks rod Rod StickList")
	present := func() []*crd {
		if err := w.Feeds.Of(w.keeper.kind).WaitFor(t.Context(), w.revision()); err != nil {
			t.Fatal(err)
		}
		return definitionsOf(w.Feeds.Of(w.keeper.kind).CachedIn(fabric.View{}))
	}
	for range 2 { // The second time nothing is left to write.
		if !w.keeper.keep(t.Context(), present()) {
			t.Fatal("the keeper failed")
		}
	}
	before := present()
	seen := append([]*crd(nil), before...)
	if !w.keeper.keep(t.Context(), seen) || seen[0] != before[0] || seen[1] == before[1] {
		t.Errorf("looked again at the settled definition: %v; at the one without its names: %v", seen[0] != before[0], seen[1] != before[1])
	}
	if again := present(); again[0].ResourceVersion != before[0].ResourceVersion || again[1].ResourceVersion != before[1].ResourceVersion {
		t.Error("a look wrote")
	}
}

// revision returns etcd's present revision.
func (w *world) revision() int64 {
	w.T.Helper()
	revision, err := w.Store.Of(scheme.For[*crd](w.Table)).Revision(w.T.Context())
	if err != nil {
		w.T.Fatal(err)
	}
	return revision
}
