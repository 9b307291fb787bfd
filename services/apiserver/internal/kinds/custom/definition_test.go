package custom

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const anything = "schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}"

// TestKinds checks what clients learn of the versions of a definition.
func TestKinds(t *testing.T) {
	definition := definitionOf(t, head+`
- {name: v1alpha1, served: true, storage: false, deprecated: true, `+anything+`}
- {name: v1beta1, served: true, storage: false, deprecated: true, deprecationWarning: do not, `+anything+`}
- {name: v1, served: true, storage: true, subresources: {scale: {specReplicasPath: .spec.n, statusReplicasPath: .status.n}, status: {}}, `+anything+`}
- {name: v2alpha1, served: true, storage: false, subresources: {status: {}}, `+anything+`}
- {name: v3, served: false, storage: false, `+anything+`}
`)
	found, err := kindsOf(t, definition)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, kind := range found {
		text := fmt.Sprintf("%s stored as %s at %s, %s %s:", kind.GroupVersionKind, kind.Storage.Version, kind.StoragePrefix, kind.ListKind().Kind, kind.Deprecated)
		for _, s := range kind.Kind.Subresources {
			text += fmt.Sprintf(" %s %s", s.Name, strings.Join(s.Verbs, "+"))
		}
		got = append(got, text)
		if kind.Resource != "gadgets" || kind.Singular != "gadget" || kind.ShortNames[0] != "gd" || kind.Categories[0] != "all" || !kind.Namespaced || !kind.Custom {
			t.Errorf("%s is %+v", kind.GroupVersionKind, kind.Kind)
		}
	}
	slices.Sort(got)
	const at = " stored as v1 at example.org/gadgets, GadgetHeap "
	want := []string{
		"example.org/v1, Kind=Gadget" + at + ": status get+patch+update scale get+patch+update",
		"example.org/v1alpha1, Kind=Gadget" + at + "example.org/v1alpha1 Gadget is deprecated; use example.org/v1 Gadget:",
		"example.org/v1beta1, Kind=Gadget" + at + "do not:",
		"example.org/v2alpha1, Kind=Gadget" + at + ": status get+patch+update",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kinds (-want +got):\n%s", diff)
	}
}

// TestDeprecationWithoutSuccessor checks the warning if all newer versions are deprecated or not served.
func TestDeprecationWithoutSuccessor(t *testing.T) {
	found, err := kindsOf(t, definitionOf(t, head+`
- {name: v1, served: true, storage: true, `+anything+`}
- {name: v2, served: true, storage: false, deprecated: true, `+anything+`}
- {name: v3, served: false, storage: false, `+anything+`}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got := found["v2"].Deprecated; got != "example.org/v2 Gadget is deprecated" {
		t.Errorf("got %q", got)
	}
}

// TestUnusable checks definitions that Kubernetes refuses, and that etcd may hold nevertheless.
func TestUnusable(t *testing.T) {
	for name, c := range map[string]struct{ versions, want string }{
		"no stored version":  {"- {name: v1, served: true, storage: false, " + anything + "}", "reading gadgets.example.org: no version is stored"},
		"a bad field":        {"- {name: v1, served: true, storage: true, selectableFields: [{jsonPath: '.a['}], " + anything + "}", "reading the path of a selectable field"},
		"no structural form": {"- {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: array, items: {$ref: x}}}}", "reading the schema"},
	} {
		if _, err := kindsOf(t, definitionOf(t, head+c.versions)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestTerminating checks that nothing can be created while a definition is being deleted.
func TestTerminating(t *testing.T) {
	definition := definitionOf(t, head+"- {name: v1, served: true, storage: true, "+anything+"}")
	found, err := kindsOf(t, definition)
	if err != nil || found["v1"].Closed != "" {
		t.Fatalf("got %q: %v", found["v1"].Closed, err)
	}
	definition.DeletionTimestamp = &metav1.Time{}
	if found, err = kindsOf(t, definition); err != nil || found["v1"].Closed != "create not allowed while custom resource definition is terminating" {
		t.Errorf("got %q: %v", found["v1"].Closed, err)
	}
}

// TestPreparation checks what writers can change, and what counts as a generation.
func TestPreparation(t *testing.T) {
	const parts = "subresources: {status: {}}, "
	with, without := kindOfVersion(t, parts+anything), kindOfVersion(t, anything)
	created := gadget(t, "spec: {a: 1}\nstatus: {b: 1}")
	with.PrepareForCreate(created)
	if _, ok := created.Object["status"]; ok || created.GetGeneration() != 1 {
		t.Errorf("created with %v", created.Object)
	}
	for name, c := range map[string]struct {
		status     bool
		changed    string
		generation int64
		want       string
	}{
		"nothing":              {true, "spec: {a: 1}\nstatus: {b: 1}", 1, "map[a:1] map[b:1]"},
		"the spec":             {true, "spec: {a: 2}\nstatus: {b: 1}", 2, "map[a:2] map[b:1]"},
		"the status":           {true, "spec: {a: 1}\nstatus: {b: 2}", 1, "map[a:1] map[b:1]"},
		"no status":            {true, "spec: {a: 1}", 1, "map[a:1] map[b:1]"},
		"the status as a part": {false, "spec: {a: 1}\nstatus: {b: 2}", 2, "map[a:1] map[b:2]"},
		"metadata":             {false, "metadata: {name: g, namespace: default, labels: {x: y}}\nspec: {a: 1}\nstatus: {b: 1}", 1, "map[a:1] map[b:1]"},
		"another field":        {true, "data: x\nspec: {a: 1}\nstatus: {b: 1}", 2, "map[a:1] map[b:1]"},
	} {
		old, obj, kind := gadget(t, "spec: {a: 1}\nstatus: {b: 1}"), gadget(t, c.changed), without
		if c.status {
			kind = with
		}
		old.SetGeneration(1)
		obj.SetGeneration(1)
		kind.Update.Prepare(obj, old)
		if got := fmt.Sprint(obj.Object["spec"], " ", obj.Object["status"]); got != c.want || obj.GetGeneration() != c.generation {
			t.Errorf("%s: got %s in generation %d, want %s in %d", name, got, obj.GetGeneration(), c.want, c.generation)
		}
	}
	if _, ok := without.Subresources["status"]; ok {
		t.Error("a version without the subresource status has it")
	}
}

// TestStatusKeepsTheRest checks that a write of the status changes nothing else but the owners of fields.
func TestStatusKeepsTheRest(t *testing.T) {
	kind := kindOfVersion(t, "subresources: {status: {}}, "+anything)
	old, obj := gadget(t, "spec: {a: 1}\nstatus: {b: 1}"), gadget(t, "metadata: {name: g, namespace: default, labels: {x: y}}\nspec: {a: 2}\nstatus: {b: 2}")
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m"}})
	kind.Subresources["status"].Prepare(obj, old)
	want := gadget(t, "spec: {a: 1}\nstatus: {b: 2}")
	want.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "m"}})
	if diff := cmp.Diff(want.Object, obj.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	gone := gadget(t, "spec: {a: 1}")
	if kind.Subresources["status"].Prepare(gone, old); gone.Object["status"] != nil {
		t.Errorf("the status that was removed is %v", gone.Object["status"])
	}
}
