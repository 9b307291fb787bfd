package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/util/jsonpath"
)

// Kubernetes' limits for a policy's audit annotations.
const (
	maxAuditAnnotations     = 20
	maxAnnotationExpression = 5 << 10
)

// validatingPolicy validates a validating policy.
func (v validator) validatingPolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&p.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if errs := validateExtent(field.NewPath("spec"), expressionsOfValidating(&p.Spec), nil); len(errs) > 0 {
		return errs
	}
	return append(errs, v.validatingSpec(p, nil, false)...)
}

// validatingPolicyUpdate validates an update of a validating policy. Unchanged match conditions are not
// checked.
func (v validator) validatingPolicyUpdate(p, old *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	same := apiequality.Semantic.DeepEqual(p.Spec.ParamKind, old.Spec.ParamKind) && apiequality.Semantic.DeepEqual(p.Spec.MatchConditions, old.Spec.MatchConditions)
	if errs := validateExtent(field.NewPath("spec"), expressionsOfValidating(&p.Spec), expressionsOfValidating(&old.Spec)); len(errs) > 0 {
		return errs
	}
	return append(errs, v.validatingSpec(p, expressionsOf(old), same)...)
}

// expressionsOf returns the expressions of a stored policy.
func expressionsOf(old *admissionregistrationv1.ValidatingAdmissionPolicy) known {
	k := known{}
	for _, c := range old.Spec.MatchConditions {
		k.add(condition, c.Expression)
	}
	for _, v := range old.Spec.Validations {
		k.add(validates, v.Expression)
		k.add(message, v.MessageExpression)
	}
	for _, a := range old.Spec.AuditAnnotations {
		k.add(annotation, a.ValueExpression)
	}
	return k
}

func (v validator) validatingSpec(p *admissionregistrationv1.ValidatingAdmissionPolicy, stored known, sameConditions bool) field.ErrorList {
	s, at := &p.Spec, field.NewPath("spec")
	c := &compilation{validator: v, known: stored, params: s.ParamKind != nil}
	errs := failurePolicy(s.FailurePolicy, at.Child("failurePolicy"))
	errs = append(errs, paramKind(s.ParamKind, at.Child("paramKind"))...)
	errs = append(errs, constraints(s.MatchConstraints, at.Child("matchConstraints"))...)
	if !sameConditions {
		errs = append(errs, c.matchConditions(s.MatchConditions, at.Child("matchConditions"))...)
	}
	if len(s.Variables) > 0 {
		if err := c.withVariables(); err != nil {
			return append(errs, field.InternalError(at.Child("variables"), err))
		}
	}
	errs = append(errs, c.variables(s.Variables, at.Child("variables"))...)
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		const either = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(at.Child("validations"), either), field.Required(at.Child("auditAnnotations"), either))
	}
	for i := range s.Validations {
		errs = append(errs, c.validation(&s.Validations[i], at.Child("validations").Index(i))...)
	}
	return append(errs, c.auditAnnotations(p.Name, s.AuditAnnotations, at.Child("auditAnnotations"))...)
}

func (c *compilation) validation(v *admissionregistrationv1.Validation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	blank := func(text string) bool { return text != "" && strings.TrimSpace(text) == "" }
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
	} else {
		mode := c.known.mode(validates, v.Expression)
		errs = append(errs, c.check(newExpression(validates, v.Expression), v.Expression, mode, at.Child("expression"))...)
	}
	if blank(v.MessageExpression) {
		errs = append(errs, field.Invalid(at.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
	} else if v.MessageExpression != "" {
		mode := c.known.mode(message, v.MessageExpression)
		errs = append(errs, c.check(newExpression(message, v.MessageExpression), v.MessageExpression, mode, at.Child("messageExpression"))...)
	}
	if blank(v.Message) {
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "must be non-empty if specified"))
	} else if strings.ContainsAny(strings.TrimSpace(v.Message), "\n\r") {
		errs = append(errs, field.Invalid(at.Child("message"), v.Message, "must not contain line breaks"))
	}
	if v.Reason != nil {
		errs = append(errs, one(*v.Reason, at.Child("reason"),
			metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonRequestEntityTooLarge)...)
	}
	return errs
}

func (c *compilation) auditAnnotations(policy string, list []admissionregistrationv1.AuditAnnotation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxAuditAnnotations {
		errs = append(errs, field.Invalid(at, list, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	for i, a := range list {
		key, at := at.Index(i).Child("key"), at.Index(i).Child("valueExpression")
		if policy == "" {
			errs = append(errs, field.Invalid(key, a.Key, "requires metadata.name be non-empty"))
		} else {
			for _, msg := range validation.IsQualifiedName(policy + "/" + a.Key) {
				errs = append(errs, field.Invalid(key, policy+"/"+a.Key, msg))
			}
		}
		switch expression := strings.TrimSpace(a.ValueExpression); {
		case expression == "":
			errs = append(errs, field.Required(at, "valueExpression is not specified"))
		case len(expression) > maxAnnotationExpression:
			errs = append(errs, field.Required(at, fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationExpression)))
		default:
			mode := c.known.mode(annotation, a.ValueExpression)
			errs = append(errs, c.check(newExpression(annotation, expression), a.ValueExpression, mode, at)...)
		}
		if slices.ContainsFunc(list[:i], func(other admissionregistrationv1.AuditAnnotation) bool { return other.Key == a.Key }) {
			errs = append(errs, field.Duplicate(key, a.Key))
		}
	}
	return errs
}

// validateValidatingPolicyStatus validates the status of a validating policy.
func validateValidatingPolicyStatus(p, _ *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status")
	if checked := p.Status.TypeChecking; checked != nil {
		for i, warning := range checked.ExpressionWarnings {
			at := at.Child("typeChecking", "expressionWarnings").Index(i)
			if warning.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			errs = append(errs, fieldRef(strings.TrimSpace(warning.FieldRef), at.Child("fieldRef"))...)
		}
	}
	return append(errs, metav1validation.ValidateConditions(p.Status.Conditions, at.Child("conditions"))...)
}

// fieldRef checks the path of the field that a warning is about.
func fieldRef(path string, at *field.Path) field.ErrorList {
	if path == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	if err := jsonpath.New("spec").Parse("{" + path + "}"); err != nil {
		return field.ErrorList{field.Invalid(at, path, fmt.Sprintf("invalid JSONPath: %v", err))}
	}
	return nil
}
