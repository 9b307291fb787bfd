package custom

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

const shaped = `schema: {openAPIV3Schema: {type: object, properties: {
  spec: {type: object, default: {}, properties: {
    size: {type: string, default: large},
    maybe: {type: string, nullable: true},
    count: {type: integer},
    free: {type: object, x-kubernetes-preserve-unknown-fields: true},
    within: {type: object, x-kubernetes-embedded-resource: true, default: {apiVersion: v1, kind: Odd, metadata: {name: o, odd: 1}}}}},
  list: {type: array, items: {type: object, properties: {on: {type: boolean, default: true}}}}}}}`

// TestPruneAndDefault checks what requests leave of an object, and what they add.
func TestPruneAndDefault(t *testing.T) {
	kind := kindOfVersion(t, shaped)
	for name, c := range map[string]struct {
		given, want string
		unknown     []string
	}{
		"nothing":        {"", "spec: {size: large, within: {apiVersion: v1, kind: Odd, metadata: {name: o}}}", nil},
		"unknown fields": {"spec: {rocket: 1, within: {apiVersion: v1, kind: A}}\nrocket: 2", "spec: {size: large, within: {apiVersion: v1, kind: A}}", []string{"rocket", "spec.rocket"}},
		"what is kept":   {"spec: {size: a, free: {rocket: {a: 1}}, within: {apiVersion: v1, kind: A}}", "spec: {size: a, free: {rocket: {a: 1}}, within: {apiVersion: v1, kind: A}}", nil},
		"nulls":          {"spec: {size: null, maybe: null, count: null, within: {apiVersion: v1, kind: A}}", "spec: {size: large, maybe: null, within: {apiVersion: v1, kind: A}}", nil},
		"in a list":      {"spec: {within: {apiVersion: v1, kind: A}}\nlist: [{}, {on: false, rocket: 1}]", "spec: {size: large, within: {apiVersion: v1, kind: A}}\nlist: [{on: true}, {on: false}]", []string{"list[1].rocket"}},
		"metadata":       {"metadata: {name: g, namespace: default, rocket: 1}\nspec: {within: {apiVersion: v1, kind: A, metadata: {name: x, rocket: 1}}}", "spec: {size: large, within: {apiVersion: v1, kind: A, metadata: {name: x}}}", []string{"metadata.rocket", "spec.within.metadata.rocket"}},
	} {
		obj, want := gadget(t, c.given), gadget(t, c.want)
		unknown, err := kind.Prune(obj, kinds.Pruning{Report: true})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		kind.Default(obj)
		want.SetCreationTimestamp(obj.GetCreationTimestamp())
		if diff := cmp.Diff(want.Object, obj.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if slices.Sort(unknown); !slices.Equal(unknown, c.unknown) {
			t.Errorf("%s: got the unknown fields %q, want %q", name, unknown, c.unknown)
		}
	}
	if _, err := kind.Prune(gadget(t, "metadata: {name: g, namespace: default, labels: 7}"), kinds.Pruning{}); err == nil {
		t.Error("labels that are a number are accepted")
	}
	if _, err := kind.Prune(gadget(t, "spec: {within: {apiVersion: v1, kind: A, metadata: 7}}"), kinds.Pruning{}); err == nil {
		t.Error("metadata in an object that is a number is accepted")
	}
}

// TestKeepNulls prunes an object and leaves it to validation what is null.
func TestKeepNulls(t *testing.T) {
	kind := kindOfVersion(t, shaped)
	obj := gadget(t, "spec: {size: null, maybe: null, count: null, rocket: null, within: {apiVersion: v1, kind: A}}")
	if _, err := kind.Prune(obj, kinds.Pruning{KeepNulls: true}); err != nil {
		t.Fatal(err)
	}
	kind.Default(obj)
	want := gadget(t, "spec: {size: large, maybe: null, count: null, within: {apiVersion: v1, kind: A}}")
	want.SetCreationTimestamp(obj.GetCreationTimestamp())
	if diff := cmp.Diff(want.Object, obj.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRestore checks that what etcd holds is read, whatever it is.
func TestRestore(t *testing.T) {
	kind := kindOfVersion(t, shaped)
	obj := gadget(t, "metadata: {name: g, namespace: default, labels: 7}\nspec: {rocket: 1, within: {apiVersion: v1, kind: A, metadata: {name: x, labels: 7}}}")
	if err := kind.Restore(obj); err != nil {
		t.Fatal(err)
	}
	want := gadget(t, "metadata: {name: g, namespace: default, generation: 1}\nspec: {size: large, within: {apiVersion: v1, kind: A, metadata: {name: x}}}")
	want.SetCreationTimestamp(obj.GetCreationTimestamp())
	if diff := cmp.Diff(want.Object, obj.Object); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPreserveUnknownFields checks a definition of the time before structural schemas.
func TestPreserveUnknownFields(t *testing.T) {
	found, err := kindsOf(t, definitionOf(t, "preserveUnknownFields: true"+head+"- {name: v1, served: true, storage: true}"))
	if err != nil {
		t.Fatal(err)
	}
	obj := gadget(t, "rocket: 1")
	unknown, err := found["v1"].Prune(obj, kinds.Pruning{Report: true})
	if err != nil || len(unknown) > 0 || obj.Object["rocket"] != int64(1) {
		t.Errorf("got %v, %q: %v", obj.Object, unknown, err)
	}
}
