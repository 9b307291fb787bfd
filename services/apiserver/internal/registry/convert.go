package registry

import (
	"fmt"

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
