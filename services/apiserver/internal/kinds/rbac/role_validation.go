package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateRole validates a role.
func ValidateRole(r *rbacv1.Role) field.ErrorList {
	errs := meta(&r.ObjectMeta, true)
	for i := range r.Rules {
		errs = append(errs, rule(&r.Rules[i], true, field.NewPath("rules").Index(i))...)
	}
	return errs
}

// validateRoleUpdate validates an update of a role.
func validateRoleUpdate(r, old *rbacv1.Role) field.ErrorList {
	return append(ValidateRole(r), metaUpdate(&r.ObjectMeta, &old.ObjectMeta)...)
}
