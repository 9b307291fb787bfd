package rbac

import (
	"cmp"
	"slices"
	"sync"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// maxSubjects bounds the subjects of all RoleBindings of one namespace, for the namespace to be in
// the index. The index is rebuilt when any binding changes, and a user with control of a namespace
// may bind one of its roles to any number of subjects.
const maxSubjects = 10_000

// subjectIndex maps subjects to the namespaces in which something is granted to them.
type subjectIndex struct {
	mu            sync.Mutex
	at            feed.Version
	users, groups map[string][]string
}

// Namespaces returns the namespaces in which RoleBindings grant something to a user, sorted. It
// leaves out a namespace whose bindings have more than 10,000 subjects in all.
func (a *Authorizer) Namespaces(user authn.User) ([]string, error) {
	p := &a.subjects
	p.mu.Lock()
	defer p.mu.Unlock()
	bindings, now, changed := a.everywhere.caches.RoleBindings.CachedSince(fabric.View{}, p.at)
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

// bySubject returns the namespaces of bindings by the users and by the groups that they name.
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
				// All bindings of a namespace are visited in a row.
				if n := len(to[who]); n == 0 || to[who][n-1] != namespace {
					to[who] = append(to[who], namespace)
				}
			}
		}
	}
	return users, groups
}
