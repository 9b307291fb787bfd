package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// ClusterRole defines the kind ClusterRole.
func ClusterRole() *kinds.Definition {
	return kinds.Of[*rbacv1.ClusterRole]{
		Level:               kinds.Full,
		Validate:            ValidateClusterRole,
		Update:              kinds.ChangeOf[*rbacv1.ClusterRole]{Validate: validateClusterRoleUpdate},
		AllowCreateOnUpdate: true,
	}.Definition()
}
