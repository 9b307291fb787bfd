package admissionregistration

import (
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxConditions is the highest number of match conditions of a webhook or a policy.
const maxConditions = 64

// rule checks a rule that matches operations on resources.
func rule(r *admissionregistrationv1.RuleWithOperations, at *field.Path) field.ErrorList {
	errs := operations(r.Operations, at.Child("operations"))
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(at.Child("apiGroups"), ""))
	}
	if len(r.APIGroups) > 1 && slices.Contains(r.APIGroups, "*") {
		errs = append(errs, field.Invalid(at.Child("apiGroups"), r.APIGroups, "if '*' is present, must not specify other API groups"))
	}
	if len(r.APIVersions) == 0 {
		errs = append(errs, field.Required(at.Child("apiVersions"), ""))
	}
	if len(r.APIVersions) > 1 && slices.Contains(r.APIVersions, "*") {
		errs = append(errs, field.Invalid(at.Child("apiVersions"), r.APIVersions, "if '*' is present, must not specify other API versions"))
	}
	for i, version := range r.APIVersions {
		if version == "" {
			errs = append(errs, field.Required(at.Child("apiVersions").Index(i), ""))
		}
	}
	errs = append(errs, resources(r.Resources, at.Child("resources"))...)
	scopes := []admissionregistrationv1.ScopeType{
		admissionregistrationv1.AllScopes, admissionregistrationv1.ClusterScope, admissionregistrationv1.NamespacedScope,
	}
	if r.Scope != nil && !slices.Contains(scopes, *r.Scope) {
		errs = append(errs, field.NotSupported(at.Child("scope"), *r.Scope, scopes))
	}
	return errs
}

func operations(list []admissionregistrationv1.OperationType, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if len(list) > 1 && slices.Contains(list, admissionregistrationv1.OperationAll) {
		errs = append(errs, field.Invalid(at, list, "if '*' is present, must not specify other operations"))
	}
	known := []admissionregistrationv1.OperationType{
		admissionregistrationv1.OperationAll, admissionregistrationv1.Connect, admissionregistrationv1.Create,
		admissionregistrationv1.Delete, admissionregistrationv1.Update,
	}
	for i, operation := range list {
		if !slices.Contains(known, operation) {
			errs = append(errs, field.NotSupported(at.Index(i), operation, known))
		}
	}
	return errs
}

// resources rejects resources and subresources that an asterisk in the same list already covers.
func resources(list []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	allOf, everywhere := map[string]bool{}, map[string]bool{}
	plain := false
	for i, name := range list {
		if name == "" {
			errs = append(errs, field.Required(at.Index(i), ""))
			continue
		}
		resource, sub, found := strings.Cut(name, "/")
		if !found {
			plain = name != "*"
			continue
		}
		if allOf[resource] {
			errs = append(errs, field.Invalid(at.Index(i), name, fmt.Sprintf("if '%s/*' is present, must not specify %s", resource, name)))
		}
		if everywhere[sub] {
			errs = append(errs, field.Invalid(at.Index(i), name, fmt.Sprintf("if '*/%s' is present, must not specify %s", sub, name)))
		}
		allOf[resource] = allOf[resource] || sub == "*"
		everywhere[sub] = everywhere[sub] || resource == "*"
	}
	if len(list) > 1 && slices.Contains(list, "*/*") {
		errs = append(errs, field.Invalid(at, list, "if '*/*' is present, must not specify other resources"))
	}
	if plain && slices.Contains(list, "*") {
		errs = append(errs, field.Invalid(at, list, "if '*' is present, must not specify other resources without subresources"))
	}
	return errs
}

func (c *compilation) matchConditions(list []admissionregistrationv1.MatchCondition, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) > maxConditions {
		errs = append(errs, field.TooMany(at, len(list), maxConditions))
	}
	seen := map[string]bool{}
	for i, m := range list {
		at := at.Index(i)
		if text := strings.TrimSpace(m.Expression); text == "" {
			errs = append(errs, field.Required(at.Child("expression"), ""))
		} else {
			errs = append(errs, c.check(newExpression(condition, text), text, c.known.mode(condition, text), at.Child("expression"))...)
		}
		if m.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
			continue
		}
		for _, msg := range validation.IsQualifiedName(m.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), m.Name, msg))
		}
		if seen[m.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), m.Name))
		}
		seen[m.Name] = true
	}
	return errs
}

// one requires a value to be one of the known ones.
func one[T ~string](value T, at *field.Path, known ...T) field.ErrorList {
	if !slices.Contains(known, value) {
		return field.ErrorList{field.NotSupported(at, value, known)}
	}
	return nil
}
