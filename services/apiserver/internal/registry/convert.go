package registry

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/strategy"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// present returns a stored object in the form of the requested kind.
func (r *Resource) present(obj scheme.Object) scheme.Object {
	if obj == nil || r.strategy.FromStored == nil {
		return obj
	}
	return r.strategy.FromStored(obj)
}

// storable returns an object of the requested kind in its stored form.
func (r *Resource) storable(obj scheme.Object) scheme.Object {
	if r.strategy.ToStored == nil {
		return obj
	}
	return r.strategy.ToStored(obj)
}

// conversions returns the conversions of the kinds that are stored as another kind.
func conversions(strategies map[schema.GroupVersionKind]*strategy.Strategy) map[schema.GroupVersionKind]managedfields.Conversion {
	found := map[schema.GroupVersionKind]managedfields.Conversion{}
	for gvk, s := range strategies {
		if s.ToStored != nil {
			found[gvk] = managedfields.Conversion{ToStored: s.ToStored, FromStored: s.FromStored}
		}
	}
	return found
}

func deepCopy(obj scheme.Object) (scheme.Object, error) {
	copied, ok := obj.DeepCopyObject().(scheme.Object)
	if !ok {
		return nil, fmt.Errorf("copying a %T: the copy has no metadata", obj)
	}
	return copied, nil
}

// listOf returns objs as the kind's list. The items are shallow copies that share what they point
// to.
func listOf(kind *scheme.Kind, objs []scheme.Object) (runtime.Object, error) {
	list := kind.NewList()
	items := make([]runtime.Object, len(objs))
	for i, obj := range objs {
		items[i] = obj
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, fmt.Errorf("building a list of %s: %w", kind.Resource, err)
	}
	return list, nil
}
