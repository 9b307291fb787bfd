package apps

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateControllerRevision validates a new controller revision.
func validateControllerRevision(r *appsv1.ControllerRevision) field.ErrorList {
	errs, path := revisionWhole(r), field.NewPath("data")
	if r.Data.Raw == nil {
		return append(errs, field.Required(path, "data is mandatory"))
	}
	var value any
	if err := json.Unmarshal(r.Data.Raw, &value); err != nil {
		return append(errs, field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data: %v", err)))
	}
	if value == nil {
		return append(errs, field.Required(path, "data is mandatory"))
	}
	if _, ok := value.(map[string]any); !ok {
		errs = append(errs, field.Required(path, "data must be a valid JSON object"))
	}
	return errs
}

// validateControllerRevisionUpdate validates an update of a controller revision: the data is immutable.
func validateControllerRevisionUpdate(r, old *appsv1.ControllerRevision) field.ErrorList {
	return append(revisionWhole(r), apivalidation.ValidateImmutableField(r.Data, old.Data, field.NewPath("data"))...)
}

// revisionWhole checks everything in a controller revision but its data.
func revisionWhole(r *appsv1.ControllerRevision) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&r.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, nonnegative(r.Revision, field.NewPath("revision"))...)
}
