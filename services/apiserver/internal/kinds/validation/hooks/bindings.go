package hooks

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidatingPolicyBinding validates a binding of a validating policy.
func ValidatingPolicyBinding(b *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&b.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validatingBinding(&b.Spec)...)
}

// ValidatingPolicyBindingUpdate validates an update of such a binding.
func ValidatingPolicyBindingUpdate(b, old *admissionregistrationv1.ValidatingAdmissionPolicyBinding) field.ErrorList {
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
		errs = append(errs, field.Required(at, "at least one validation action is required"))
	}
	return errs
}

// MutatingPolicyBinding validates a binding of a mutating policy.
func MutatingPolicyBinding(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&b.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, mutatingBinding(&b.Spec)...)
}

// MutatingPolicyBindingUpdate validates an update of such a binding.
func MutatingPolicyBindingUpdate(b, old *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, mutatingBinding(&b.Spec)...)
}

func mutatingBinding(s *admissionregistrationv1.MutatingAdmissionPolicyBindingSpec) field.ErrorList {
	at := field.NewPath("spec")
	return append(binding(s.PolicyName, s.ParamRef, s.MatchResources, at), mutable(s.MatchResources, at.Child("matchResources"))...)
}

func binding(policy string, params *admissionregistrationv1.ParamRef, match *admissionregistrationv1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy == "" {
		errs = append(errs, field.Required(at.Child("policyName"), ""))
	} else {
		for _, msg := range apivalidation.NameIsDNSSubdomain(policy, false) {
			errs = append(errs, field.Invalid(at.Child("policyName"), policy, msg))
		}
	}
	errs = append(errs, paramRef(params, at.Child("paramRef"))...)
	return append(errs, matchResources(match, at.Child("matchResources"))...)
}

func paramRef(ref *admissionregistrationv1.ParamRef, at *field.Path) field.ErrorList {
	const either = "name and selector are mutually exclusive"
	if ref == nil {
		return nil
	}
	var errs field.ErrorList
	if ref.Name != "" {
		for _, msg := range content.IsPathSegmentName(ref.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), ref.Name, msg))
		}
		if ref.Selector != nil {
			errs = append(errs, field.Forbidden(at.Child("name"), either))
		}
	}
	errs = append(errs, metav1validation.ValidateLabelSelector(ref.Selector, metav1validation.LabelSelectorValidationOptions{}, at.Child("selector"))...)
	if ref.Selector != nil && ref.Name != "" {
		errs = append(errs, field.Forbidden(at.Child("selector"), either))
	}
	if ref.Selector == nil && ref.Name == "" {
		errs = append(errs, field.Required(at, "one of name or selector must be specified"))
	}
	at = at.Child("parameterNotFoundAction")
	if action := ref.ParameterNotFoundAction; action == nil || *action == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, one(*action, at, admissionregistrationv1.DenyAction, admissionregistrationv1.AllowAction)...)
	}
	return errs
}
