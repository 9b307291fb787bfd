package flowcontrol

import (
	"fmt"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/upkeep/flowcontrol"
)

// validateFlowSchema validates a flow schema.
func validateFlowSchema(s *flowcontrolv1.FlowSchema) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(append(errs, flowSchemaSpec(s, field.NewPath("spec"))...), validateFlowSchemaStatus(s, nil)...)
}

func flowSchemaSpec(s *flowcontrolv1.FlowSchema, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	precedence, p := s.Spec.MatchingPrecedence, at.Child("matchingPrecedence")
	if precedence <= 0 {
		errs = append(errs, field.Invalid(p, precedence, "must be a positive value"))
	}
	if precedence > flowcontrolv1.FlowSchemaMaxMatchingPrecedence {
		errs = append(errs, field.Invalid(p, precedence, fmt.Sprintf("must not be greater than %v", flowcontrolv1.FlowSchemaMaxMatchingPrecedence)))
	}
	if precedence == 1 && s.Name != flowcontrolv1.FlowSchemaNameExempt {
		errs = append(errs, field.Invalid(p, precedence, "only the schema named 'exempt' may have matchingPrecedence 1"))
	}
	methods := []flowcontrolv1.FlowDistinguisherMethodType{flowcontrolv1.FlowDistinguisherMethodByNamespaceType, flowcontrolv1.FlowDistinguisherMethodByUserType}
	if by := s.Spec.DistinguisherMethod; by != nil && !slices.Contains(methods, by.Type) {
		errs = append(errs, field.NotSupported(at.Child("distinguisherMethod", "type"), by, texts(methods)))
	}
	p = at.Child("priorityLevelConfiguration", "name")
	if level := s.Spec.PriorityLevelConfiguration.Name; level == "" {
		errs = append(errs, field.Required(p, "must reference a priority level"))
	} else {
		for _, msg := range apivalidation.NameIsDNSSubdomain(level, false) {
			errs = append(errs, field.Invalid(p, level, msg))
		}
	}
	for i := range s.Spec.Rules {
		errs = append(errs, flowRules(&s.Spec.Rules[i], at.Child("rules").Index(i))...)
	}
	schemas, _ := flowcontrol.Mandatory()
	if fixed := schemas[s.Name]; fixed != nil && !apiequality.Semantic.DeepEqual(&s.Spec, fixed) {
		errs = append(errs, field.Invalid(at, s.Spec, fmt.Sprintf("spec of '%s' must equal the fixed value", s.Name)))
	}
	return errs
}

func flowRules(r *flowcontrolv1.PolicyRulesWithSubjects, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Subjects) == 0 {
		errs = append(errs, field.Required(at.Child("subjects"), "subjects must contain at least one value"))
	}
	for i := range r.Subjects {
		errs = append(errs, flowSubject(&r.Subjects[i], at.Child("subjects").Index(i))...)
	}
	if len(r.ResourceRules) == 0 && len(r.NonResourceRules) == 0 {
		errs = append(errs, field.Required(at, "at least one of resourceRules and nonResourceRules has to be non-empty"))
	}
	for i := range r.ResourceRules {
		errs = append(errs, resourceRule(&r.ResourceRules[i], at.Child("resourceRules").Index(i))...)
	}
	for i := range r.NonResourceRules {
		errs = append(errs, urlRule(&r.NonResourceRules[i], at.Child("nonResourceRules").Index(i))...)
	}
	return errs
}

func flowSubject(s *flowcontrolv1.Subject, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch s.Kind {
	case flowcontrolv1.SubjectKindServiceAccount:
		errs = accountSubject(s.ServiceAccount, at.Child("serviceAccount"))
	case flowcontrolv1.SubjectKindUser:
		if s.User == nil {
			errs = append(errs, field.Required(at.Child("user"), "user is required when subject kind is 'User'"))
		} else if s.User.Name == "" {
			errs = append(errs, field.Required(at.Child("user", "name"), ""))
		}
	case flowcontrolv1.SubjectKindGroup:
		if s.Group == nil {
			errs = append(errs, field.Required(at.Child("group"), "group is required when subject kind is 'Group'"))
		} else if s.Group.Name == "" {
			errs = append(errs, field.Required(at.Child("group", "name"), ""))
		}
	default:
		return field.ErrorList{field.NotSupported(at.Child("kind"), s.Kind, []flowcontrolv1.SubjectKind{
			flowcontrolv1.SubjectKindGroup, flowcontrolv1.SubjectKindServiceAccount, flowcontrolv1.SubjectKindUser,
		})}
	}
	if s.ServiceAccount != nil && s.Kind != flowcontrolv1.SubjectKindServiceAccount {
		errs = append(errs, field.Forbidden(at.Child("serviceAccount"), "serviceAccount is forbidden when subject kind is not 'ServiceAccount'"))
	}
	if s.User != nil && s.Kind != flowcontrolv1.SubjectKindUser {
		errs = append(errs, field.Forbidden(at.Child("user"), "user is forbidden when subject kind is not 'User'"))
	}
	if s.Group != nil && s.Kind != flowcontrolv1.SubjectKindGroup {
		errs = append(errs, field.Forbidden(at.Child("group"), "group is forbidden when subject kind is not 'Group'"))
	}
	return errs
}

func accountSubject(s *flowcontrolv1.ServiceAccountSubject, at *field.Path) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(at, "serviceAccount is required when subject kind is 'ServiceAccount'")}
	}
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else if s.Name != flowcontrolv1.NameAll {
		for _, msg := range apivalidation.ValidateServiceAccountName(s.Name, false) {
			errs = append(errs, field.Invalid(at.Child("name"), s.Name, msg))
		}
	}
	if s.Namespace == "" {
		return append(errs, field.Required(at.Child("namespace"), "must specify namespace for service account"))
	}
	for _, msg := range apivalidation.ValidateNamespaceName(s.Namespace, false) {
		errs = append(errs, field.Invalid(at.Child("namespace"), s.Namespace, msg))
	}
	return errs
}

func resourceRule(r *flowcontrolv1.ResourcePolicyRule, at *field.Path) field.ErrorList {
	errs := verbs(r.Verbs, at.Child("verbs"))
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	errs = append(errs, alone(r.APIGroups, "api groups", at.Child("apiGroups"))...)
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
	}
	errs = append(errs, alone(r.Resources, "resources", at.Child("resources"))...)
	at = at.Child("namespaces")
	if len(r.Namespaces) == 0 && !r.ClusterScope {
		errs = append(errs, field.Required(at, "resource rules that are not cluster scoped must supply at least one namespace"))
	}
	if slices.Contains(r.Namespaces, "*") {
		return append(errs, alone(r.Namespaces, "namespaces", at)...)
	}
	for i, name := range r.Namespaces {
		for _, msg := range apivalidation.ValidateNamespaceName(name, false) {
			errs = append(errs, field.Invalid(at.Index(i), name, "each member of this list must be '*' or a DNS-1123 label; "+msg))
		}
	}
	return errs
}

func urlRule(r *flowcontrolv1.NonResourcePolicyRule, at *field.Path) field.ErrorList {
	errs := verbs(r.Verbs, at.Child("verbs"))
	at = at.Child("nonResourceURLs")
	if len(r.NonResourceURLs) == 0 {
		errs = append(errs, field.Required(at, "nonResourceURLs must contain at least one value"))
	}
	if slices.Contains(r.NonResourceURLs, "*") {
		return append(errs, alone(r.NonResourceURLs, "non-resource URLs", at)...)
	}
	for i, url := range r.NonResourceURLs {
		if msg := urlPath(url); msg != "" {
			errs = append(errs, field.Invalid(at.Index(i), url, msg))
		}
	}
	return errs
}

func urlPath(url string) string {
	stars := strings.Count(url, "*")
	switch {
	case url == "":
		return "must not be empty"
	case url == "/":
	case !strings.HasPrefix(url, "/"):
		return "must start with slash"
	case strings.Contains(url, " "):
		return "must not contain white-space"
	case strings.Contains(url, "//"):
		return "must not contain double slash"
	case stars > 1 || stars == 1 && !strings.HasSuffix(url, "/*"):
		return "wildcard can only do suffix matching"
	}
	return ""
}

func verbs(list []string, at *field.Path) field.ErrorList {
	known := []string{"create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"}
	switch {
	case len(list) == 0:
		return field.ErrorList{field.Required(at, "verbs must contain at least one value")}
	case slices.Contains(list, "*"):
		return alone(list, "verbs", at)
	case slices.ContainsFunc(list, func(verb string) bool { return !slices.Contains(known, verb) }):
		return field.ErrorList{field.NotSupported(at, list, known)}
	}
	return nil
}

// alone requires that an asterisk, if there is one, is the only value.
func alone(list []string, what string, at *field.Path) field.ErrorList {
	if len(list) > 1 && slices.Contains(list, "*") {
		return field.ErrorList{field.Invalid(at, list, "if '*' is present, must not specify other "+what)}
	}
	return nil
}

// validateFlowSchemaUpdate validates an update of a flow schema.
func validateFlowSchemaUpdate(s, old *flowcontrolv1.FlowSchema) field.ErrorList {
	return append(apivalidation.ValidateObjectMetaUpdate(&s.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), validateFlowSchema(s)...)
}

// validateFlowSchemaStatus validates the status of a flow schema.
func validateFlowSchemaStatus(s, _ *flowcontrolv1.FlowSchema) field.ErrorList {
	return conditions(s.Status.Conditions, func(c flowcontrolv1.FlowSchemaCondition) string { return string(c.Type) })
}

func texts[T ~string](list []T) []string {
	var all []string
	for _, value := range list {
		all = append(all, string(value))
	}
	return all
}
