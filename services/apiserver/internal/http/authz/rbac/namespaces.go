package rbac

import (
	"cmp"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// maxSubjects bounds how many subjects the RoleBindings of one namespace may have in all for it to
// be in the index of namespaces. That is made anew when any binding changes, and whoever rules a
// namespace may bind a role of it to as many as he likes.
const maxSubjects = 10_000

// places keeps the index of the namespaces in which something is granted, by subject.
type places struct {
	mu            sync.Mutex
	at            feed.Version
	users, groups map[string][]string
}

// Namespaces gives the namespaces in which something is granted to a user by RoleBindings,
// sorted. One whose bindings have more than 10,000 subjects in all is left out.
func (a *Authorizer) Namespaces(user authn.User) ([]string, error) {
	p := &a.places
	p.mu.Lock()
	defer p.mu.Unlock()
	bindings, now, changed := a.everywhere.caches.RoleBindings.CachedSince(feed.View{}, p.at)
	if now == (feed.Version{}) {
		return nil, errNotRead
	}
	if changed || p.users == nil {
		p.at = now
		p.users, p.groups = bySubject(bindings)
	}
	found := slices.Clone(p.users[user.Name])
	for _, group := range user.Groups {
		found = append(found, p.groups[group]...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// bySubject gives the namespaces of bindings by the users and by the groups that they name.
func bySubject(objects []scheme.Object) (users, groups map[string][]string) {
	users, groups = map[string][]string{}, map[string][]string{}
	bindings := map[string][]*rbacv1.RoleBinding{}
	subjects := map[string]int{}
	for _, obj := range objects {
		if binding, ok := obj.(*rbacv1.RoleBinding); ok {
			bindings[binding.Namespace] = append(bindings[binding.Namespace], binding)
			subjects[binding.Namespace] += len(binding.Subjects)
		}
	}
	for namespace, all := range bindings {
		if subjects[namespace] > maxSubjects {
			continue
		}
		for _, binding := range all {
			for _, subject := range binding.Subjects {
				to, who := users, subject.Name
				switch subject.Kind {
				case rbacv1.UserKind:
				case rbacv1.GroupKind:
					to = groups
				case rbacv1.ServiceAccountKind:
					who = "system:serviceaccount:" + cmp.Or(subject.Namespace, namespace) + ":" + subject.Name
				default:
					continue
				}
				// Namespaces come one after the other.
				if n := len(to[who]); n == 0 || to[who][n-1] != namespace {
					to[who] = append(to[who], namespace)
				}
			}
		}
	}
	return users, groups
}
