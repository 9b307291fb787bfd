package rbac

import (
	"cmp"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/authn"
	"github.com/garboard/garboard/services/apiserver/internal/feed"
)

// places keeps the index of the namespaces in which something is granted, by subject.
type places struct {
	mu            sync.Mutex
	at            feed.Version
	users, groups map[string][]string
}

// Namespaces gives the namespaces in which something is granted to a user by RoleBindings,
// sorted.
func (a *Authorizer) Namespaces(user authn.User) ([]string, error) {
	p := &a.places
	p.mu.Lock()
	defer p.mu.Unlock()
	bindings, now, changed := a.everywhere.caches.RoleBindings.CachedSince(feed.View{}, p.at)
	if now == (feed.Version{}) {
		return nil, errNotRead
	}
	if changed || p.users == nil {
		p.at, p.users, p.groups = now, map[string][]string{}, map[string][]string{}
		for _, binding := range sorted[*rbacv1.RoleBinding](bindings) {
			for _, subject := range binding.Subjects {
				to, who := p.users, subject.Name
				switch subject.Kind {
				case rbacv1.UserKind:
				case rbacv1.GroupKind:
					to = p.groups
				case rbacv1.ServiceAccountKind:
					who = "system:serviceaccount:" + cmp.Or(subject.Namespace, binding.Namespace) + ":" + subject.Name
				default:
					continue
				}
				if !slices.Contains(to[who], binding.Namespace) {
					to[who] = append(to[who], binding.Namespace)
				}
			}
		}
	}
	found := slices.Clone(p.users[user.Name])
	for _, group := range user.Groups {
		found = append(found, p.groups[group]...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}
