package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// Versions are the versions of the four caches that the authorizer decides by. While they are the
// same, so is every decision. The zero value stands for caches that were never read.
type Versions struct {
	Roles, RoleBindings, ClusterRoles, ClusterRoleBindings feed.Version
}

// Versions returns the present versions. have, from an earlier call, saves work when nothing has
// changed since.
func (a *Authorizer) Versions(have Versions) Versions {
	now := func(cache Cache, have feed.Version) feed.Version {
		_, version, _ := cache.CachedSince(fabric.View{}, have)
		return version
	}
	from := a.everywhere.caches
	return Versions{
		Roles: now(from.Roles, have.Roles), RoleBindings: now(from.RoleBindings, have.RoleBindings),
		ClusterRoles: now(from.ClusterRoles, have.ClusterRoles), ClusterRoleBindings: now(from.ClusterRoleBindings, have.ClusterRoleBindings),
	}
}

// Granted calls see with the rules of each role that is granted to a user by the RoleBindings of a
// namespace, or by ClusterRoleBindings if namespace is empty, until see returns false. A role that
// doesn't exist has no rules. A role that is granted both to the user and to the user's groups is
// passed several times. The rules are shared and must not be changed.
func (a *Authorizer) Granted(user authn.User, namespace string, see func([]rbacv1.PolicyRule) bool) error {
	wide, err := a.everywhere.index()
	if err != nil {
		return err
	}
	visitor := func(g *grant) bool { return see(g.rules) }
	if namespace == "" {
		wide.grants.visit(user, visitor)
		return nil
	}
	local, err := a.namespaces.index(namespace, wide)
	if err != nil {
		return err
	}
	local.visit(user, visitor)
	return nil
}
