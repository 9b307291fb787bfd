package admissionregistration

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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
