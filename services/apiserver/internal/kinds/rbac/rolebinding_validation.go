package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateRoleBinding validates a role binding.
func ValidateRoleBinding(b *rbacv1.RoleBinding) field.ErrorList {
	errs := meta(&b.ObjectMeta, true)
	errs = append(errs, roleRef(b.RoleRef, []string{"Role", "ClusterRole"})...)
	return append(errs, subjects(b.Subjects, true)...)
}

// validateRoleBindingUpdate validates an update of a role binding.
func validateRoleBindingUpdate(b, old *rbacv1.RoleBinding) field.ErrorList {
	errs := append(ValidateRoleBinding(b), metaUpdate(&b.ObjectMeta, &old.ObjectMeta)...)
	return append(errs, sameRole(b.RoleRef, old.RoleRef)...)
}
