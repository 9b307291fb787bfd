// Package listing implements Kubernetes' rules for the options of reads, lists and watches.
package listing

import (
	"fmt"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	internalvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ParseVersion parses the resourceVersion of a request: 0 for unset and for "0". Its error is not
// yet suitable for clients.
func ParseVersion(version string) (int64, *field.Error) {
	if version == "" {
		return 0, nil
	}
	revision, err := strconv.ParseUint(version, 10, 63)
	if err != nil {
		return 0, field.Invalid(field.NewPath("resourceVersion"), version, err.Error())
	}
	return int64(revision), nil
}

// InvalidVersion returns the error with which get and list answer an error of ParseVersion.
func InvalidVersion(err *field.Error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
}

// Validate returns an API error if the options of a list or a watch are invalid.
func Validate(opts metav1.ListOptions, watching bool) error {
	given := &internalversion.ListOptions{
		Watch: watching, ResourceVersion: opts.ResourceVersion, ResourceVersionMatch: opts.ResourceVersionMatch,
		Continue: opts.Continue, SendInitialEvents: opts.SendInitialEvents,
	}
	internalversion.SetListOptionsDefaults(given, true)
	errs := internalvalidation.ValidateListOptions(given, true)
	if len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: "ListOptions"}, "", errs)
	}
	return nil
}
