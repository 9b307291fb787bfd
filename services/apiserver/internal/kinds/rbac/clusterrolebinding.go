package rbac

import (
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// ClusterRoleBinding defines the kind ClusterRoleBinding.
func ClusterRoleBinding() *kinds.Definition {
	return kinds.Of[*rbacv1.ClusterRoleBinding]{
		Columns:             clusterRoleBindingColumns(),
		Level:               kinds.Full,
		Default:             defaultClusterRoleBinding,
		Validate:            ValidateClusterRoleBinding,
		Update:              kinds.ChangeOf[*rbacv1.ClusterRoleBinding]{Validate: validateClusterRoleBindingUpdate},
		AllowCreateOnUpdate: true,
	}.Definition()
}

// defaultClusterRoleBinding sets the defaults of a cluster role binding.
func defaultClusterRoleBinding(b *rbacv1.ClusterRoleBinding) {
	kinds.FillString(&b.RoleRef.APIGroup, rbacv1.GroupName)
	defaultSubjects(b.Subjects)
}

func clusterRoleBindingColumns() *columns.Layout {
	return columns.Of(bindingColumns("clusterRoleBinding", rbacv1.ClusterRoleBinding{}.SwaggerDoc()["roleRef"]), func(b *rbacv1.ClusterRoleBinding, now time.Time) []any {
		return bindingCells(b, b.RoleRef, b.Subjects, now)
	})
}
