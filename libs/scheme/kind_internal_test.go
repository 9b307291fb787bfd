package scheme

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestKindsMayShareAGoType: two kinds may share a Go type; the group, version and kind of an object
// then decide.
func TestKindsMayShareAGoType(t *testing.T) {
	table := New()
	kind := func(name string) *Kind {
		k := &Kind{
			GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: name},
			Resource:         strings.ToLower(name) + "s", StoragePrefix: "example.org/" + name,
			newObject: func() Object { return &corev1.ConfigMap{} }, newList: func() runtime.Object { return &corev1.ConfigMapList{} },
		}
		if err := table.Install(k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	cat, dog := kind("Cat"), kind("Dog")
	for _, k := range []*Kind{cat, dog} {
		obj := k.New()
		if table.KindOf(obj) != k || !k.Holds(obj) {
			t.Errorf("the kind of a %s is %v", k.Kind, table.KindOf(obj))
		}
	}
	if cat.Holds(dog.New()) || New().Kinds()[0].Holds(cat.New()) {
		t.Error("an object is of another kind than its own group, version and kind")
	}
	if table.KindOf(nil) != nil || cat.Holds(nil) {
		t.Error("a nil object has a kind")
	}
}
