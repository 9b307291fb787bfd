package networking

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// validateIPAddress validates the record of an allocated address, whose name is the address.
func validateIPAddress(a *networkingv1.IPAddress) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&a.ObjectMeta, false, addressName, field.NewPath("metadata"))
	path, ref := field.NewPath("spec", "parentRef"), a.Spec.ParentRef
	if ref == nil {
		return append(errs, field.Required(path, ""))
	}
	if ref.Group != "" {
		errs = append(errs, values.Invalid(path.Child("group"), ref.Group, validation.IsDNS1123Subdomain(ref.Group))...)
	}
	errs = append(errs, segment(path.Child("resource"), ref.Resource)...)
	errs = append(errs, segment(path.Child("name"), ref.Name)...)
	if ref.Namespace != "" {
		errs = append(errs, values.Invalid(path.Child("namespace"), ref.Namespace, content.IsPathSegmentName(ref.Namespace))...)
	}
	return errs
}

func addressName(name string, _ bool) []string {
	var messages []string
	for _, err := range validation.IsValidIP(nil, name) {
		messages = append(messages, err.Detail)
	}
	return messages
}

// validateIPAddressUpdate validates an update of such a record, whose parent is immutable.
func validateIPAddressUpdate(a, old *networkingv1.IPAddress) field.ErrorList {
	return append(validateIPAddress(a), apivalidation.ValidateImmutableField(a.Spec.ParentRef, old.Spec.ParentRef, field.NewPath("spec", "parentRef"))...)
}
