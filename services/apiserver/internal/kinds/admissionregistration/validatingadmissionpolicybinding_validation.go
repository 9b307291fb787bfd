package admissionregistration

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateValidatingPolicyBinding validates a binding of a validating policy.
func validateValidatingPolicyBinding(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&b.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validatingBinding(&b.Spec)...)
}

// validateValidatingPolicyBindingUpdate validates an update of such a binding.
func validateValidatingPolicyBindingUpdate(b, old *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, validatingBinding(&b.Spec)...)
}

func validatingBinding(s *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) field.ErrorList {
	at := field.NewPath("spec")
	errs := binding(s.PolicyName, s.ParamRef, s.MatchResources, at)
	at = at.Child("validationActions")
	for i, action := range s.ValidationActions {
		errs = append(errs, one(action, at.Index(i), admissionregistrationv1.Audit, admissionregistrationv1.Deny, admissionregistrationv1.Warn)...)
		if slices.Contains(s.ValidationActions[:i], action) {
			errs = append(errs, field.Duplicate(at.Index(i), action))
		}
	}
	if slices.Contains(s.ValidationActions, admissionregistrationv1.Deny) && slices.Contains(s.ValidationActions, admissionregistrationv1.Warn) {
		errs = append(errs, field.Invalid(at, s.ValidationActions,
			"must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)"))
	}
	if len(s.ValidationActions) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	return errs
}
