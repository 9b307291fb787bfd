package registry

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/scheme"
)

// recorded wraps a change that the registry itself makes to an object's status, such as a quota's
// usage: the registry becomes the owner of what it changes.
func (r *Registry) recorded(kind *scheme.Kind, change Change) Change {
	return func(current scheme.Object) (scheme.Object, error) {
		live, err := deepCopy(current)
		if err != nil {
			return nil, apierrors.NewInternalError(err)
		}
		obj, err := change(current)
		if err != nil {
			return nil, err
		}
		r.owners.Update(kind, "status", live, obj, ownWriter)
		return obj, nil
	}
}
