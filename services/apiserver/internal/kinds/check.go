package kinds

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/libs/scheme"
)

// Check refuses to write an object that is not of the kind. The apiserver decodes by the kind of the request, so
// such an object is a mistake of the caller. But a custom resource is of the kind that its body tells, and that is
// the client's choice: the error is then Kubernetes'.
func Check(kind *scheme.Kind, obj scheme.Object) error {
	if kind.Holds(obj) {
		return nil
	}
	if !kind.Custom || obj == nil {
		return apierrors.NewBadRequest(fmt.Sprintf("a %T was sent where a %s is expected", obj, kind.Kind))
	}
	var errs field.ErrorList
	given := obj.GetObjectKind().GroupVersionKind()
	if given.Kind != kind.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), given.Kind, "must be "+kind.Kind))
	}
	if wanted := kind.GroupVersion(); given.GroupVersion() != wanted {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), given.GroupVersion().String(), "must be "+wanted.String()))
	}
	return apierrors.NewInvalid(given.GroupKind(), obj.GetName(), errs)
}
