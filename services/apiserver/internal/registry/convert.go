package registry

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/scheme"
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

// conversion returns the conversion of a kind that is stored as another kind.
func (r *Registry) conversion(kind *scheme.Kind) managedfields.Conversion {
	definition := r.config.Catalog.Of(kind)
	if definition == nil {
		return managedfields.Conversion{}
	}
	return managedfields.Conversion{ToStored: definition.ToStored, FromStored: definition.FromStored}
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
	if kind.Custom {
		return customList(list, objs)
	}
	items := make([]runtime.Object, len(objs))
	for i, obj := range objs {
		items[i] = obj
	}
	if err := meta.SetList(list, items); err != nil {
		return nil, fmt.Errorf("building a list of %s: %w", kind.Resource, err)
	}
	return list, nil
}

// customList fills the list of a custom kind. Its items share what objs hold.
func customList(list runtime.Object, objs []scheme.Object) (runtime.Object, error) {
	filled, ok := list.(*unstructured.UnstructuredList)
	if !ok {
		return nil, fmt.Errorf("building a list: it is a %T", list)
	}
	filled.Items = make([]unstructured.Unstructured, 0, len(objs))
	for _, obj := range objs {
		item, ok := obj.(*unstructured.Unstructured)
		if !ok {
			return nil, fmt.Errorf("building a list of custom objects: an item is a %T", obj)
		}
		filled.Items = append(filled.Items, *item)
	}
	return filled, nil
}
