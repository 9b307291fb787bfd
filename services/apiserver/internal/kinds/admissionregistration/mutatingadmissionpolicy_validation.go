package admissionregistration

import (
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// mutatingPolicy validates a mutating policy.
func (v validator) mutatingPolicy(p *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&p.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if errs := validateExtent(field.NewPath("spec"), expressionsOfMutating(&p.Spec), nil); len(errs) > 0 {
		return errs
	}
	return append(errs, v.mutatingSpec(&p.Spec, nil, false)...)
}

// mutatingPolicyUpdate validates an update of a mutating policy. Unchanged match conditions are not checked.
func (v validator) mutatingPolicyUpdate(p, old *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	same := apiequality.Semantic.DeepEqual(p.Spec.ParamKind, old.Spec.ParamKind) && apiequality.Semantic.DeepEqual(p.Spec.MatchConditions, old.Spec.MatchConditions)
	if errs := validateExtent(field.NewPath("spec"), expressionsOfMutating(&p.Spec), expressionsOfMutating(&old.Spec)); len(errs) > 0 {
		return errs
	}
	return append(errs, v.mutatingSpec(&p.Spec, mutationsOf(old), same)...)
}

// mutationsOf returns the expressions of a stored policy that Kubernetes knows again. It compares new JSON
// patches with old apply configurations.
func mutationsOf(old *admissionregistrationv1.MutatingAdmissionPolicy) known {
	k := known{}
	for _, c := range old.Spec.MatchConditions {
		k.add(condition, c.Expression)
	}
	for _, m := range old.Spec.Mutations {
		if m.ApplyConfiguration != nil {
			k.add(application, m.ApplyConfiguration.Expression)
		}
	}
	return k
}

func (v validator) mutatingSpec(s *admissionregistrationv1.MutatingAdmissionPolicySpec, stored known, sameConditions bool) field.ErrorList {
	at := field.NewPath("spec")
	c := &compilation{validator: v, known: stored, params: s.ParamKind != nil}
	if err := c.withVariables(); err != nil {
		return field.ErrorList{field.InternalError(at, err)}
	}
	errs := failurePolicy(s.FailurePolicy, at.Child("failurePolicy"))
	errs = append(errs, paramKind(s.ParamKind, at.Child("paramKind"))...)
	errs = append(errs, constraints(s.MatchConstraints, at.Child("matchConstraints"))...)
	errs = append(errs, mutable(s.MatchConstraints, at.Child("matchConstraints"))...)
	if !sameConditions {
		errs = append(errs, c.matchConditions(s.MatchConditions, at.Child("matchConditions"))...)
	}
	errs = append(errs, c.variables(s.Variables, at.Child("variables"))...)
	if len(s.Mutations) == 0 {
		errs = append(errs, field.Required(at.Child("mutations"), "mutations must contain at least one item"))
	}
	for i := range s.Mutations {
		errs = append(errs, c.mutation(&s.Mutations[i], at.Child("mutations").Index(i))...)
	}
	if s.ReinvocationPolicy == "" {
		return append(errs, field.Required(at.Child("reinvocationPolicy"), ""))
	}
	return append(errs, one(s.ReinvocationPolicy, at.Child("reinvocationPolicy"),
		admissionregistrationv1.IfNeededReinvocationPolicy, admissionregistrationv1.NeverReinvocationPolicy)...)
}

func (c *compilation) mutation(m *admissionregistrationv1.Mutation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	expressed := func(of use, text, name string) {
		trimmed := strings.TrimSpace(text)
		if trimmed == "" {
			errs = append(errs, field.Required(at.Child(name, "expression"), ""))
			return
		}
		errs = append(errs, c.check(newExpression(of, trimmed), trimmed, c.known.mode(application, text), at.Child(name, "expression"))...)
	}
	switch m.PatchType {
	case "":
		errs = append(errs, field.Required(at.Child("patchType"), ""))
	case admissionregistrationv1.PatchTypeJSONPatch:
		if m.JSONPatch == nil {
			errs = append(errs, field.Required(at.Child("jsonPatch"), "must be specified when patchType is JSONPatch"))
		} else {
			expressed(jsonPatch, m.JSONPatch.Expression, "jsonPatch")
		}
		if m.ApplyConfiguration != nil {
			errs = append(errs, field.Invalid(at.Child("applyConfiguration"), "{applyConfiguration}", "must not be specified when patchType is JSONPatch"))
		}
	case admissionregistrationv1.PatchTypeApplyConfiguration:
		if m.ApplyConfiguration == nil {
			errs = append(errs, field.Required(at.Child("applyConfiguration"), "must be specified when patchType is ApplyConfiguration"))
		} else {
			expressed(application, m.ApplyConfiguration.Expression, "applyConfiguration")
		}
		if m.JSONPatch != nil {
			errs = append(errs, field.Invalid(at.Child("jsonPatch"), "{jsonPatch}", "must not be specified when patchType is ApplyConfiguration"))
		}
	default:
		errs = append(errs, one(m.PatchType, at.Child("patchType"), admissionregistrationv1.PatchTypeApplyConfiguration, admissionregistrationv1.PatchTypeJSONPatch)...)
	}
	return errs
}
