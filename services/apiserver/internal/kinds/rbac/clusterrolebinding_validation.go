package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateClusterRoleBinding validates a cluster role binding.
func ValidateClusterRoleBinding(b *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := meta(&b.ObjectMeta, false)
	errs = append(errs, roleRef(b.RoleRef, []string{"ClusterRole"})...)
	return append(errs, subjects(b.Subjects, false)...)
}

// validateClusterRoleBindingUpdate validates an update of a cluster role binding.
func validateClusterRoleBindingUpdate(b, old *rbacv1.ClusterRoleBinding) field.ErrorList {
	errs := append(ValidateClusterRoleBinding(b), metaUpdate(&b.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, sameRole(b.RoleRef, old.RoleRef)...)
}
