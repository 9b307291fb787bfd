package strategy

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	validation "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/rbac"
)

func role() *kinds.Definition {
	return of[*rbacv1.Role]{
		Level:               kinds.Full,
		Validate:            validation.Role,
		Update:              change[*rbacv1.Role]{Validate: validation.RoleUpdate},
		AllowCreateOnUpdate: true,
	}.strategy()
}

func roleBinding() *kinds.Definition {
	return of[*rbacv1.RoleBinding]{
		Level:               kinds.Full,
		Default:             defaults.RoleBinding,
		Validate:            validation.RoleBinding,
		Update:              change[*rbacv1.RoleBinding]{Validate: validation.RoleBindingUpdate},
		AllowCreateOnUpdate: true,
	}.strategy()
}

func clusterRole() *kinds.Definition {
	return of[*rbacv1.ClusterRole]{
		Level:               kinds.Full,
		Validate:            validation.ClusterRole,
		Update:              change[*rbacv1.ClusterRole]{Validate: validation.ClusterRoleUpdate},
		AllowCreateOnUpdate: true,
	}.strategy()
}

func clusterRoleBinding() *kinds.Definition {
	return of[*rbacv1.ClusterRoleBinding]{
		Level:               kinds.Full,
		Default:             defaults.ClusterRoleBinding,
		Validate:            validation.ClusterRoleBinding,
		Update:              change[*rbacv1.ClusterRoleBinding]{Validate: validation.ClusterRoleBindingUpdate},
		AllowCreateOnUpdate: true,
	}.strategy()
}
