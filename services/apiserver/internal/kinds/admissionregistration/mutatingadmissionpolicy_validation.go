package admissionregistration

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateMutatingPolicy validates a mutating policy.
func validateMutatingPolicy(p *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&p.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, mutatingSpec(&p.Spec, false)...)
}

// validateMutatingPolicyUpdate validates an update of a mutating policy. Unchanged match conditions are not
// checked.
func validateMutatingPolicyUpdate(p, old *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	same := apiequality.Semantic.DeepEqual(p.Spec.ParamKind, old.Spec.ParamKind) && apiequality.Semantic.DeepEqual(p.Spec.MatchConditions, old.Spec.MatchConditions)
	return append(errs, mutatingSpec(&p.Spec, same)...)
}

func mutatingSpec(s *admissionregistrationv1.MutatingAdmissionPolicySpec, sameConditions bool) field.ErrorList {
	at := field.NewPath("spec")
	errs := failurePolicy(s.FailurePolicy, at.Child("failurePolicy"))
	errs = append(errs, paramKind(s.ParamKind, at.Child("paramKind"))...)
	errs = append(errs, constraints(s.MatchConstraints, at.Child("matchConstraints"))...)
	errs = append(errs, mutable(s.MatchConstraints, at.Child("matchConstraints"))...)
	if !sameConditions {
		errs = append(errs, matchConditions(s.MatchConditions, at.Child("matchConditions"))...)
	}
	errs = append(errs, variables(s.Variables, at.Child("variables"))...)
	if len(s.Mutations) == 0 {
		errs = append(errs, field.Required(at.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range s.Mutations {
		errs = append(errs, mutation(&s.Mutations[i], at.Child("mutations").Index(i))...)
	}
	if s.ReinvocationPolicy == "" {
		return append(errs, field.Required(at.Child("reinvocationPolicy"), ""))
	}
	return append(errs, one(s.ReinvocationPolicy, at.Child("reinvocationPolicy"),
		admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)...)
}

func mutation(m *admissionregistrationv1.Mutation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	expressed := func(expression, name string) {
		if strings.TrimSpace(expression) == "" {
			errs = append(errs, field.Required(at.Child(name, "expression"), ""))
		}
	}
	switch m.PatchType {
	case "":
		errs = append(errs, field.Required(at.Child("patchType"), ""))
	case admissionregistrationv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(at.Child("jsonPatch"), "must be specified when patchType is JSONPatch"))
		} else {
			expressed(m.JSONPatch.Expression, "jsonPatch")
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(at.Child("applyConfiguration"), "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(at.Child("applyConfiguration"), "must be specified when patchType is ApplyConfiguration"))
		} else {
			expressed(m.ApplyConfiguration.Expression, "applyConfiguration")
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(at.Child("jsonPatch"), "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
	default:
		errs = append(errs, one(m.PatchType, at.Child("patchType"), admissionregistrationv1.PatchTypeApplyConfiguration, admissionregistrationv1.PatchTypeJSONPatch)...)
	}
	return errs
}
