package apps

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateControllerRevision validates a controller revision.
func validateControllerRevision(r *appsv1.ControllerRevision) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&r.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if len(r.Data.Raw) == 0 && r.Data.Object == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	}
	return append(errs, nonnegative(r.Revision, field.NewPath("revision"))...)
}

// validateControllerRevisionUpdate validates an update of a controller revision: the data is immutable.
func validateControllerRevisionUpdate(r, old *appsv1.ControllerRevision) field.ErrorList {
	errs := validateControllerRevision(r)
	if !apiequality.Semantic.DeepEqual(r.Data, old.Data) {
		errs = append(errs, field.Invalid(field.NewPath("data"), fmt.Sprintf("%d bytes", len(r.Data.Raw)), apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}
