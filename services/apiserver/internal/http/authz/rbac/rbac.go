// Package rbac decides by the roles and bindings that the watch cache has, as Kubernetes'
// authorizer of that name does. Nothing is read or waited for: what a request may do is looked
// up by its user's name and groups in an index, which is made again when a role or a binding
// changes.
package rbac

import (
	"context"
	"errors"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// errNotRead says that nothing can be decided yet.
var errNotRead = errors.New("roles and bindings have not been read yet")

// Cache is what the authorizer reads: a feed.
type Cache interface {
	CachedSince(view feed.View, have feed.Version) (objects []scheme.Object, now feed.Version, changed bool)
}

// Caches are those of the four kinds; all are required.
type Caches struct {
	Roles, RoleBindings, ClusterRoles, ClusterRoleBindings Cache
}

// Authorizer decides by roles. It may be used from any goroutine.
type Authorizer struct {
	everywhere wide
	namespaces local
	places     places
}

// New makes an authorizer of what the caches have.
func New(caches Caches) *Authorizer {
	a := &Authorizer{everywhere: wide{caches: caches}}
	a.namespaces = local{caches: caches, indexes: map[string]*namespaceIndex{}}
	return a
}

// Authorize allows what a role that is bound to the user allows: first those of
// ClusterRoleBindings, then those of the namespace's RoleBindings. It never denies; its reason
// for no opinion names roles that are bound to the user but do not exist.
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

// visit calls see for what is granted to a user in a namespace, or everywhere if that is empty,
// until see says false. A binding that names the user twice is seen twice.
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

// PolicyRules gives all rules that apply to a user in a namespace, or everywhere if that is
// empty. The error names roles that are bound but do not exist; the rules are then the rest.
// They are shared and must not be changed.
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
