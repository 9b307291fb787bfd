package rbac

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// RoleBinding defines the kind RoleBinding.
func RoleBinding() *kinds.Definition {
	return kinds.Of[*rbacv1.RoleBinding]{
		Columns:             roleBindingColumns(),
		Level:               kinds.Full,
		Default:             defaultRoleBinding,
		Validate:            ValidateRoleBinding,
		Update:              kinds.ChangeOf[*rbacv1.RoleBinding]{Validate: validateRoleBindingUpdate},
		AllowCreateOnUpdate: true,
	}.Definition()
}

// defaultRoleBinding sets the defaults of a role binding.
func defaultRoleBinding(b *rbacv1.RoleBinding) {
	kinds.FillString(&b.RoleRef.APIGroup, rbacv1.GroupName)
	defaultSubjects(b.Subjects)
}

func roleBindingColumns() *columns.Layout {
	return columns.Of(bindingColumns("roleBinding", rbacv1.RoleBinding{}.SwaggerDoc()["roleRef"]), func(b *rbacv1.RoleBinding, now time.Time) []any {
		return bindingCells(b, b.RoleRef, b.Subjects, now)
	})
}
