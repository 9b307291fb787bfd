// Package rbac validates roles and their bindings, with Kubernetes' error messages.
package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// name accepts any name that can be a path segment: system names contain colons.
func name(name string, prefix bool) []string {
	if prefix {
		return content.IsPathSegmentPrefix(name)
	}
	return content.IsPathSegmentName(name)
}

func meta(obj *metav1.ObjectMeta, namespaced bool) field.ErrorList {
	return apivalidation.ValidateObjectMeta(obj, namespaced, name, field.NewPath("metadata"))
}

func metaUpdate(obj, old *metav1.ObjectMeta) field.ErrorList {
	return apivalidation.ValidateObjectMetaUpdate(obj, old, field.NewPath("metadata"))
}

// Role validates a role.
func Role(r *rbacv1.Role) field.ErrorList {
	errs := meta(&r.ObjectMeta, true)
	for i := range r.Rules {
		errs = append(errs, rule(&r.Rules[i], true, field.NewPath("rules").Index(i))...)
	}
	return errs
}

// RoleUpdate validates an update of a role.
func RoleUpdate(r, old *rbacv1.Role) field.ErrorList {
	return append(Role(r), metaUpdate(&r.ObjectMeta, &old.ObjectMeta)...)
}

// ClusterRole validates a cluster role.
func ClusterRole(r *rbacv1.ClusterRole) field.ErrorList {
	errs := meta(&r.ObjectMeta, false)
	for i := range r.Rules {
		errs = append(errs, rule(&r.Rules[i], false, field.NewPath("rules").Index(i))...)
	}
	if r.AggregationRule == nil {
		return errs
	}
	path := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(r.AggregationRule.ClusterRoleSelectors) == 0 {
		errs = append(errs, field.Required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range r.AggregationRule.ClusterRoleSelectors {
		selector := &r.AggregationRule.ClusterRoleSelectors[i]
		errs = append(errs, metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(selector); err != nil {
			errs = append(errs, field.Invalid(path.Index(i), selector, "invalid label selector."))
		}
	}
	return errs
}

// ClusterRoleUpdate validates an update of a cluster role.
func ClusterRoleUpdate(r, old *rbacv1.ClusterRole) field.ErrorList {
	return append(ClusterRole(r), metaUpdate(&r.ObjectMeta, &old.ObjectMeta)...)
}

// rule checks one rule; a namespaced one cannot grant access to non-resource URLs.
func rule(r *rbacv1.PolicyRule, namespaced bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(r.Verbs) == 0 {
		errs = append(errs, field.Required(path.Child("verbs"), ""))
	}
	if len(r.NonResourceURLs) > 0 {
		if namespaced {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
		}
		if len(r.APIGroups) > 0 || len(r.Resources) > 0 || len(r.ResourceNames) > 0 {
			errs = append(errs, field.Invalid(path.Child("nonResourceURLs"), r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
		}
		return errs
	}
	if len(r.APIGroups) == 0 {
		errs = append(errs, field.Required(path.Child("apiGroups"), "resource rules must supply at least one api group"))
	}
	if len(r.Resources) == 0 {
		errs = append(errs, field.Required(path.Child("resources"), "resource rules must supply at least one resource"))
	}
	return errs
}
