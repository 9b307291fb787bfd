package deletion

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// IgnoresReadErrors reports whether a deletion applies to objects that cannot be read: the option
// ignoreStoreReadErrorWithClusterBreakingPotential.
func IgnoresReadErrors(opts metav1.DeleteOptions) bool {
	return opts.IgnoreStoreReadErrorWithClusterBreakingPotential != nil && *opts.IgnoreStoreReadErrorWithClusterBreakingPotential
}

// RefuseUnreadable returns the error for a deletion of several objects that ignores read errors.
func RefuseUnreadable() error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "DeleteOptions"}, "", field.ErrorList{
		field.Invalid(field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential"), true, "is not allowed with DELETECOLLECTION, try again after removing the option"),
	})
}
