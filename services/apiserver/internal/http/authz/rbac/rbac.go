// Package rbac decides by the roles and bindings in the watch cache, as Kubernetes' RBAC authorizer
// does. It reads nothing from etcd and waits for nothing: it looks up the user's name and groups in
// an index, which is rebuilt when a role or a binding changes.
package rbac

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// errNotRead reports that the caches have not been filled yet.
var errNotRead = errors.New("roles and bindings have not been read yet")

// Cache is a cache that the authorizer reads: a feed.
type Cache interface {
	CachedSince(view fabric.View, have feed.Version) (objects []scheme.Object, now feed.Version, changed bool)
}

// Caches are the caches of the four kinds; all are required.
type Caches struct {
	Roles, RoleBindings, ClusterRoles, ClusterRoleBindings Cache
}

// Authorizer decides by roles. Any goroutine may use it.
type Authorizer struct {
	everywhere wide
	namespaces local
	subjects   subjectIndex
}

// New returns an authorizer that reads from caches.
func New(caches Caches) *Authorizer {
	a := &Authorizer{everywhere: wide{caches: caches}}
	a.namespaces = local{caches: caches, indexes: map[string]*namespaceIndex{}}
	return a
}

// Authorize allows what the user's roles allow: first those bound by ClusterRoleBindings, then
// those bound by the namespace's RoleBindings. It never denies. Its reason for no opinion names
// roles that are bound to the user but don't exist.
func (a *Authorizer) Authorize(_ context.Context, user authn.User, want authz.Attributes) (authz.Decision, string, error) {
	var missing []error
	reason, allowed := "", false
	err := a.visit(user, want.Namespace, func(g *grant) bool {
		if g.missing != nil {
			missing = append(missing, g.missing)
			return true
		}
		for i := range g.rules {
			if Allows(&g.rules[i], want) {
				reason, allowed = g.reason, true
				return false
			}
		}
		return true
	})
	switch {
	case allowed:
		return authz.Allow, reason, nil
	case err != nil:
		return authz.NoOpinion, "", err
	case len(missing) > 0:
		return authz.NoOpinion, fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(missing)), nil
	}
	return authz.NoOpinion, "", nil
}

// visit calls see for what is granted to a user in a namespace, and everywhere, until see returns
// false. An empty namespace stands for everywhere only. A binding that names the user twice may be
// seen twice.
func (a *Authorizer) visit(user authn.User, namespace string, see func(*grant) bool) error {
	wide, err := a.everywhere.index()
	if err != nil {
		return err
	}
	if !wide.grants.visit(user, see) || namespace == "" {
		return nil
	}
	local, err := a.namespaces.index(namespace, wide)
	if err != nil {
		return err
	}
	local.visit(user, see)
	return nil
}

// PolicyRules returns all rules that apply to a user in a namespace, or everywhere if that is
// empty. The error names roles that are bound but don't exist; the rules are then the rest. The
// rules are shared and must not be changed.
func (a *Authorizer) PolicyRules(user authn.User, namespace string) ([]rbacv1.PolicyRule, error) {
	var rules []rbacv1.PolicyRule
	var missing []error
	seen := map[*grantee]bool{}
	err := a.visit(user, namespace, func(g *grant) bool {
		if seen[g.grantee] {
			return true
		}
		seen[g.grantee] = true
		if g.missing != nil {
			missing = append(missing, g.missing)
		}
		rules = append(rules, g.rules...)
		return true
	})
	if err != nil {
		return nil, err
	}
	return rules, utilerrors.NewAggregate(missing)
}

// Rules lists what the user may do by roles.
func (a *Authorizer) Rules(_ context.Context, user authn.User, namespace string) (
	resources []authorizationv1.ResourceRule, paths []authorizationv1.NonResourceRule, incomplete bool, err error,
) {
	rules, err := a.PolicyRules(user, namespace)
	for _, rule := range rules {
		if len(rule.Resources) > 0 {
			resources = append(resources, authorizationv1.ResourceRule{
				Verbs: rule.Verbs, APIGroups: rule.APIGroups, Resources: rule.Resources, ResourceNames: rule.ResourceNames,
			})
		}
		if len(rule.NonResourceURLs) > 0 {
			paths = append(paths, authorizationv1.NonResourceRule{Verbs: rule.Verbs, NonResourceURLs: rule.NonResourceURLs})
		}
	}
	return resources, paths, false, err
}
