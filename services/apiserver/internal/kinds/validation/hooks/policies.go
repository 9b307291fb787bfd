package hooks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Kubernetes' limits for a policy's audit annotations.
const (
	maxAuditAnnotations     = 20
	maxAnnotationExpression = 5 << 10
)

// ValidatingPolicy validates a validating policy.
func ValidatingPolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&p.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validatingSpec(p, false)...)
}

// ValidatingPolicyUpdate validates an update of a validating policy. Unchanged match conditions are
// not checked.
func ValidatingPolicyUpdate(p, old *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&p.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	same := apiequality.Semantic.DeepEqual(p.Spec.ParamKind, old.Spec.ParamKind) && apiequality.Semantic.DeepEqual(p.Spec.MatchConditions, old.Spec.MatchConditions)
	return append(errs, validatingSpec(p, same)...)
}

func validatingSpec(p *admissionregistrationv1.ValidatingAdmissionPolicy, sameConditions bool) field.ErrorList {
	s, at := &p.Spec, field.NewPath("spec")
	errs := failurePolicy(s.FailurePolicy, at.Child("failurePolicy"))
	errs = append(errs, paramKind(s.ParamKind, at.Child("paramKind"))...)
	errs = append(errs, constraints(s.MatchConstraints, at.Child("matchConstraints"))...)
	if !sameConditions {
		errs = append(errs, matchConditions(s.MatchConditions, at.Child("matchConditions"))...)
	}
	errs = append(errs, variables(s.Variables, at.Child("variables"))...)
	if len(s.Validations) == 0 && len(s.AuditAnnotations) == 0 {
		const either = "validations or auditAnnotations must contain at least one item"
		return append(errs, field.Required(at.Child("validations"), either), field.Required(at.Child("auditAnnotations"), either))
	}
	for i := range s.Validations {
		errs = append(errs, check(&s.Validations[i], at.Child("validations").Index(i))...)
	}
	return append(errs, auditAnnotations(p.Name, s.AuditAnnotations, at.Child("auditAnnotations"))...)
}

func check(v *admissionregistrationv1.Validation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	blank := func(text string) bool { return text != "" && strings.TrimSpace(text) == "" }
	if strings.TrimSpace(v.Expression) == "" {
		errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
	}
	if blank(v.MessageExpression) {
		errs = append(errs, field.Invalid(at.Child("messageExpression"), v.MessageExpression, "must be non-empty if specified"))
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

func auditAnnotations(policy string, list []admissionregistrationv1.AuditAnnotation, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxAuditAnnotations {
		errs = append(errs, field.Invalid(at, list, fmt.Sprintf("must not have more than %d auditAnnotations", maxAuditAnnotations)))
	}
	for i, annotation := range list {
		key, at := at.Index(i).Child("key"), at.Index(i).Child("valueExpression")
		if policy == "" {
			errs = append(errs, field.Invalid(key, annotation.Key, "requires metadata.name be non-empty"))
		} else {
			for _, msg := range validation.IsQualifiedName(policy + "/" + annotation.Key) {
				errs = append(errs, field.Invalid(key, policy+"/"+annotation.Key, msg))
			}
		}
		switch expression := strings.TrimSpace(annotation.ValueExpression); {
		case expression == "":
			errs = append(errs, field.Required(at, "valueExpression is not specified"))
		case len(expression) > maxAnnotationExpression:
			errs = append(errs, field.Required(at, fmt.Sprintf("must not exceed %d bytes in length", maxAnnotationExpression)))
		}
		if slices.ContainsFunc(list[:i], func(other admissionregistrationv1.AuditAnnotation) bool { return other.Key == annotation.Key }) {
			errs = append(errs, field.Duplicate(key, annotation.Key))
		}
	}
	return errs
}

// ValidatingPolicyStatus validates the status of a validating policy.
func ValidatingPolicyStatus(p, _ *admissionregistrationv1.ValidatingAdmissionPolicy) field.ErrorList {
	var errs field.ErrorList
	at := field.NewPath("status")
	if checked := p.Status.TypeChecking; checked != nil {
		for i, warning := range checked.ExpressionWarnings {
			at := at.Child("typeChecking", "expressionWarnings").Index(i)
			if warning.Warning == "" {
				errs = append(errs, field.Required(at.Child("warning"), ""))
			}
			if strings.TrimSpace(warning.FieldRef) == "" {
				errs = append(errs, field.Required(at.Child("fieldRef"), ""))
			}
		}
	}
	return append(errs, metav1validation.ValidateConditions(p.Status.Conditions, at.Child("conditions"))...)
}

// MutatingPolicy validates a mutating policy.
func MutatingPolicy(p *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&p.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, mutatingSpec(&p.Spec, false)...)
}

// MutatingPolicyUpdate validates an update of a mutating policy. Unchanged match conditions are not
// checked.
func MutatingPolicyUpdate(p, old *admissionregistrationv1.MutatingAdmissionPolicy) field.ErrorList {
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

// mutable rejects deletions, because there is nothing to mutate.
func mutable(m *admissionregistrationv1.MatchResources, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m == nil {
		return nil
	}
	for i := range m.ResourceRules {
		for _, operation := range m.ResourceRules[i].Operations {
			errs = append(errs, one(operation, at.Child("resourceRules", "operations"), admissionregistrationv1.OperationAll,
				admissionregistrationv1.Connect, admissionregistrationv1.Create, admissionregistrationv1.Update)...)
		}
	}
	return errs
}

func constraints(m *admissionregistrationv1.MatchResources, at *field.Path) field.ErrorList {
	if m == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	errs := matchResources(m, at)
	if len(m.ResourceRules) == 0 {
		errs = append(errs, field.Required(at.Child("resourceRules"), ""))
	}
	return errs
}

func matchResources(m *admissionregistrationv1.MatchResources, at *field.Path) field.ErrorList {
	if m == nil {
		return nil
	}
	var errs field.ErrorList
	if m.MatchPolicy == nil {
		errs = append(errs, field.Required(at.Child("matchPolicy"), ""))
	} else {
		errs = append(errs, one(*m.MatchPolicy, at.Child("matchPolicy"), admissionregistrationv1.Equivalent, admissionregistrationv1.Exact)...)
	}
	for _, s := range []struct {
		name     string
		selector *metav1.LabelSelector
	}{{"namespaceSelector", m.NamespaceSelector}, {"objectSelector", m.ObjectSelector}} {
		if s.selector == nil {
			errs = append(errs, field.Required(at.Child(s.name), ""))
		}
		errs = append(errs, metav1validation.ValidateLabelSelector(s.selector, metav1validation.LabelSelectorValidationOptions{}, at.Child(s.name))...)
	}
	errs = append(errs, namedRules(m.ResourceRules, at.Child("resourceRules"))...)
	return append(errs, namedRules(m.ExcludeResourceRules, at.Child("excludeResourceRules"))...)
}

func namedRules(list []admissionregistrationv1.NamedRuleWithOperations, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range list {
		for j, name := range list[i].ResourceNames {
			at := at.Index(i).Child("resourceNames").Index(j)
			for _, msg := range content.IsPathSegmentName(name) {
				errs = append(errs, field.Invalid(at, name, msg))
			}
			if slices.Contains(list[i].ResourceNames[:j], name) {
				errs = append(errs, field.Duplicate(at, name))
			}
		}
		errs = append(errs, rule(&list[i].RuleWithOperations, at.Index(i))...)
	}
	return errs
}

func variables(list []admissionregistrationv1.Variable, at *field.Path) field.ErrorList {
	identifier := regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")
	reserved := []string{
		"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
		"loop", "package", "namespace", "return", "var", "void", "while",
	}
	var errs field.ErrorList
	for i, v := range list {
		at := at.Index(i)
		if strings.TrimSpace(v.Name) == "" {
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		} else if !identifier.MatchString(v.Name) || slices.Contains(reserved, v.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
		}
	}
	return errs
}

func paramKind(kind *admissionregistrationv1.ParamKind, at *field.Path) field.ErrorList {
	if kind == nil {
		return nil
	}
	var errs field.ErrorList
	p := at.Child("apiVersion")
	group, version, both := strings.Cut(kind.APIVersion, "/")
	if !both {
		group, version = "", kind.APIVersion
	}
	switch {
	case kind.APIVersion == "":
		errs = append(errs, field.Required(p, ""))
	case strings.Count(kind.APIVersion, "/") > 1:
		errs = append(errs, field.Invalid(p, kind.APIVersion, "unexpected GroupVersion string: "+kind.APIVersion))
	default:
		if msgs := validation.IsDNS1123Subdomain(group); group != "" && len(msgs) > 0 {
			errs = append(errs, field.Invalid(p, group, strings.Join(msgs, ",")))
		}
		if version == "" {
			errs = append(errs, field.Invalid(p, kind.APIVersion, "version must be specified"))
		} else if msgs := validation.IsDNS1035Label(version); len(msgs) > 0 {
			errs = append(errs, field.Invalid(p, version, strings.Join(msgs, ",")))
		}
	}
	if kind.Kind == "" {
		errs = append(errs, field.Required(at.Child("kind"), ""))
	} else if msgs := validation.IsDNS1035Label(strings.ToLower(kind.Kind)); len(msgs) > 0 {
		errs = append(errs, field.Invalid(at.Child("kind"), kind.Kind, "may have mixed case, but should otherwise match: "+strings.Join(msgs, ",")))
	}
	return errs
}
