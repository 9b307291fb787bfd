package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateClusterRole validates a cluster role.
func ValidateClusterRole(r *rbacv1.ClusterRole) field.ErrorList {
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

// validateClusterRoleUpdate validates an update of a cluster role.
func validateClusterRoleUpdate(r, old *rbacv1.ClusterRole) field.ErrorList {
	return append(ValidateClusterRole(r), metaUpdate(&r.ObjectMeta, &old.ObjectMeta)...)
}
