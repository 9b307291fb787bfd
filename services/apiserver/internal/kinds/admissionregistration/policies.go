package admissionregistration

import (
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

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

func (c *compilation) variables(list []admissionregistrationv1.Variable, at *field.Path) field.ErrorList {
	identifier := regexp.MustCompile("^[_a-zA-Z][_a-zA-Z0-9]*$")
	reserved := []string{
		"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
		"loop", "package", "namespace", "return", "var", "void", "while",
	}
	var errs field.ErrorList
	for i := range list {
		v, at := &list[i], at.Index(i)
		if strings.TrimSpace(v.Name) == "" {
			errs = append(errs, field.Required(at.Child("name"), "name is not specified"))
		} else if !identifier.MatchString(v.Name) || slices.Contains(reserved, v.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), v.Name, "must be a valid CEL identifier"))
		}
		if strings.TrimSpace(v.Expression) == "" {
			errs = append(errs, field.Required(at.Child("expression"), "expression is not specified"))
		} else {
			errs = append(errs, c.define(v, at.Child("expression"))...)
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
