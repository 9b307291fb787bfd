package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateMutatingPolicyBinding validates a binding of a mutating policy.
func validateMutatingPolicyBinding(b *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&b.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, mutatingBinding(&b.Spec)...)
}

// validateMutatingPolicyBindingUpdate validates an update of such a binding.
func validateMutatingPolicyBindingUpdate(b, old *admissionregistrationv1.MutatingAdmissionPolicyBinding) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&b.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	return append(errs, mutatingBinding(&b.Spec)...)
}

func mutatingBinding(s *admissionregistrationv1.MutatingAdmissionPolicyBindingSpec) field.ErrorList {
	at := field.NewPath("spec")
	return append(binding(s.PolicyName, s.ParamRef, s.MatchResources, at), mutable(s.MatchResources, at.Child("matchResources"))...)
}
