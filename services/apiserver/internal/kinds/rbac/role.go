package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Role defines the kind Role.
func Role() *kinds.Definition {
	return kinds.Of[*rbacv1.Role]{
		Level:               kinds.Full,
		Validate:            ValidateRole,
		Update:              kinds.ChangeOf[*rbacv1.Role]{Validate: validateRoleUpdate},
		AllowCreateOnUpdate: true,
	}.Definition()
}
