package registry

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/registry/managedfields"
)

// present returns a stored object in the form of the requested kind. Its error is an API error.
func (r *Resource) present(obj scheme.Object) (scheme.Object, error) {
	shown, err := r.strategy.FromStored.One(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return shown, nil
}

// storable returns an object of the requested kind in its stored form. Its error is an API error.
func (r *Resource) storable(obj scheme.Object) (scheme.Object, error) {
	stored, err := r.strategy.ToStored.One(obj)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return stored, nil
}

// presentAll replaces the objects of a listing by their forms of the requested kind.
func (r *Resource) presentAll(found *Listing) error {
	if r.strategy.FromStored == nil || len(found.Items) == 0 {
		return nil
	}
	stored := make([]scheme.Object, len(found.Items))
	for i := range found.Items {
		stored[i] = found.Items[i].Object
	}
	shown, err := r.strategy.FromStored(stored...)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	found.Items = slices.Clone(found.Items) // The items may be the feed's.
	for i, obj := range shown {
		found.Items[i].Object, found.Items[i].Plain = obj, nil
	}
	return nil
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
