package scheme_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

func custom(name string) *scheme.Kind {
	return &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: name}, Custom: true,
		Resource: strings.ToLower(name) + "s", Namespaced: true, StoragePrefix: "example.org/" + strings.ToLower(name) + "s",
	}
}

// TestInstall checks what a table accepts, and that it takes all of a call's kinds or none.
func TestInstall(t *testing.T) {
	changed := func(change func(*scheme.Kind)) *scheme.Kind {
		k := custom("Other")
		change(k)
		return k
	}
	status := scheme.Subresource{Name: "status", Verbs: []string{"get"}}
	scaleKind := schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"}
	with := func(list ...scheme.Subresource) *scheme.Kind {
		return changed(func(k *scheme.Kind) { k.Subresources = list })
	}
	for name, c := range map[string]struct {
		kinds []*scheme.Kind
		says  string // empty if the kinds are accepted
	}{
		"two kinds":       {kinds: []*scheme.Kind{custom("Other"), custom("Third")}},
		"stored as other": {kinds: []*scheme.Kind{custom("Other"), changed(func(k *scheme.Kind) { k.Version = "v2"; k.Storage = custom("Other").GroupVersionKind })}},
		"same kind":       {kinds: []*scheme.Kind{custom("Gadget")}, says: "has it already"},
		"same resource":   {kinds: []*scheme.Kind{custom("Other"), changed(func(k *scheme.Kind) { k.Kind = "Third"; k.Resource = "gadgets" })}, says: "has it already"},
		"twice":           {kinds: []*scheme.Kind{custom("Other"), custom("Other")}, says: "two of them are the same"},
		"no resource":     {kinds: []*scheme.Kind{changed(func(k *scheme.Kind) { k.Resource = "" })}, says: "must be set"},
		"no prefix":       {kinds: []*scheme.Kind{changed(func(k *scheme.Kind) { k.StoragePrefix = "" })}, says: "must be set"},
		"no Go type":      {kinds: []*scheme.Kind{changed(func(k *scheme.Kind) { k.Custom = false })}, says: "no Go type"},
		"two versions":    {kinds: []*scheme.Kind{changed(func(k *scheme.Kind) { k.Version, k.Kind, k.Resource, k.StoragePrefix = "v2", "Gadget", "gadgets", "x" })}, says: "another version"},
		"same keys":       {kinds: []*scheme.Kind{changed(func(k *scheme.Kind) { k.StoragePrefix = "example.org/gadgets" })}, says: "keys"},
		"keys within":     {kinds: []*scheme.Kind{changed(func(k *scheme.Kind) { k.StoragePrefix = "pods/x" })}, says: "keys"},
		"subresources":    {kinds: []*scheme.Kind{with(status, scheme.Subresource{Name: "scale", Kind: scaleKind, Verbs: []string{"get"}})}},
		"no verbs":        {kinds: []*scheme.Kind{with(scheme.Subresource{Name: "status"})}, says: "must have a name and verbs"},
		"no name":         {kinds: []*scheme.Kind{with(scheme.Subresource{Verbs: []string{"get"}})}, says: "must have a name and verbs"},
		"one name twice":  {kinds: []*scheme.Kind{with(status, status)}, says: "two subresources"},
		"holds no type":   {kinds: []*scheme.Kind{with(scheme.Subresource{Name: "x", Kind: custom("Lost").GroupVersionKind, Verbs: []string{"get"}})}, says: "is not known"},
		"stored nowhere":  {kinds: []*scheme.Kind{changed(func(k *scheme.Kind) { k.Storage.Kind = "Lost" })}, says: "not served"},
	} {
		t.Run(name, func(t *testing.T) {
			table := scheme.New()
			if err := table.Install(custom("Gadget")); err != nil {
				t.Fatal(err)
			}
			before, changes := table.Follow()
			err := table.Install(c.kinds...)
			if c.says == "" {
				if err != nil || len(table.Kinds()) != len(before)+len(c.kinds) {
					t.Fatalf("%d kinds became %d: %v", len(before), len(table.Kinds()), err)
				}
				<-changes
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.says) || len(table.Kinds()) != len(before) {
				t.Errorf("%d kinds became %d: %v", len(before), len(table.Kinds()), err)
			}
			select {
			case <-changes:
				t.Error("a refused call told of a change")
			default:
			}
		})
	}
}

// TestRemove checks that a kind goes with those that are stored as it, under all of its names.
func TestRemove(t *testing.T) {
	table := scheme.New()
	first, second := custom("Gadget"), custom("Gadget")
	second.Version, second.Storage = "v2", first.GroupVersionKind
	if err := table.Install(first, second); err != nil {
		t.Fatal(err)
	}
	if table.Stored(first.GroupResource()) != first || table.Resource(second.GroupVersionResource()) != second {
		t.Error("the installed kinds are not found")
	}
	if !table.Remove(first.GroupVersionKind) || table.Remove(first.GroupVersionKind) {
		t.Error("a kind is not removed once")
	}
	for _, kind := range []*scheme.Kind{first, second} {
		if table.Serves(kind) || table.Resource(kind.GroupVersionResource()) != nil || table.Stored(kind.GroupResource()) != nil {
			t.Errorf("%s is still served", kind.GroupVersionKind)
		}
	}
	again := custom("Gadget")
	if err := table.Install(again); err != nil || table.Serves(first) || !table.Serves(again) {
		t.Errorf("a kind that came back is the one that was removed: %v", err)
	}
}

// TestCustomStorage checks that custom objects are JSON in etcd, and that filling in keeps the bytes
// unless something changed.
func TestCustomStorage(t *testing.T) {
	table, kind := scheme.New(), custom("Gadget")
	if err := table.Install(kind); err != nil {
		t.Fatal(err)
	}
	obj := kind.New()
	obj.SetName("a")
	if !kind.Holds(obj) || table.KindOf(obj) != kind || custom("Other").Holds(obj) {
		t.Error("an object is not of its kind")
	}
	data, err := table.EncodeStorage(kind, obj)
	if want := `{"apiVersion":"example.org/v1","kind":"Gadget","metadata":{"name":"a"}}` + "\n"; err != nil || string(data) != want {
		t.Fatalf("got %s: %v", data, err)
	}
	back, err := table.DecodeStorage(kind, data)
	if err != nil || back.GetName() != "a" || !kind.Holds(back) {
		t.Fatalf("got %v: %v", back, err)
	}
	items := `{"apiVersion":"example.org/v1","kind":"Gadget","metadata":{"name":"a"},"items":[1]}`
	if found, err := table.DecodeStorage(kind, []byte(items)); err != nil || found.GetName() != "a" {
		t.Errorf("an object with items: got %v: %v", found, err)
	}
	same, err := table.Complete(kind, data, back, func(scheme.Object) error { return nil })
	if err != nil || &same[0] != &data[0] {
		t.Errorf("the bytes of an unchanged object changed: %v", err)
	}
	filled, err := table.Complete(kind, data, back, func(obj scheme.Object) error {
		obj.SetLabels(map[string]string{"x": "y"})
		return nil
	})
	if err != nil || !strings.Contains(string(filled), `"labels":{"x":"y"}`) {
		t.Errorf("got %s: %v", filled, err)
	}
	for name, data := range map[string]string{
		"not JSON": "k8s\x00", "other kind": `{"apiVersion":"example.org/v1","kind":"Other","metadata":{"name":"a"}}`,
		"a list": `{"apiVersion":"example.org/v1","kind":"GadgetList","items":[]}`, "no kind": `{"metadata":{"name":"a"}}`, "null": "null",
	} {
		if obj, err := table.DecodeStorage(kind, []byte(data)); err == nil {
			t.Errorf("%s was decoded as %v", name, obj)
		}
	}
	if _, ok := kind.NewList().(*unstructured.UnstructuredList); !ok {
		t.Errorf("the list is a %T", kind.NewList())
	}
}

// TestDerived checks that a value is computed once for each state of the table.
func TestDerived(t *testing.T) {
	table, built := scheme.New(), 0
	names := scheme.Derive(table, func(kinds []*scheme.Kind) int {
		built++
		return len(kinds)
	})
	before := names.Get()
	if names.Get() != before || built != 1 {
		t.Errorf("computed %d times", built)
	}
	if err := table.Install(custom("Gadget")); err != nil {
		t.Fatal(err)
	}
	if names.Get() != before+1 || built != 2 {
		t.Errorf("%d kinds, computed %d times", names.Get(), built)
	}
}
