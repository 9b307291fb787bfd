package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// grantee is a binding's role: its rules, or why there are none.
type grantee struct {
	rules   []rbacv1.PolicyRule
	missing error
}

// grant is a binding for one of its subjects.
type grant struct {
	*grantee
	// reason says in Kubernetes' words why a request is allowed. It is built once, since it goes
	// into the audit event of each request.
	reason string
}

// grants are bindings by their subjects. Service accounts are users. Among several bindings that
// grant one role to one subject, only the first is kept. The others allow nothing more, and a user
// with control of a namespace may create any number of them.
type grants struct {
	users, groups map[string][]*grant
	// has is what users and groups hold; it is only set while the index is built.
	has map[held]bool
}

// held is a role that a user or a group has.
type held struct {
	kind, who string
	role      *grantee
}

func newGrants() grants {
	return grants{users: map[string][]*grant{}, groups: map[string][]*grant{}, has: map[held]bool{}}
}

// made completes an index that was being built.
func (g grants) made() grants {
	g.has = nil
	return g
}

// visit calls see for what is granted to a user until see returns false. It reports whether see
// never did.
func (g grants) visit(user authn.User, see func(*grant) bool) bool {
	for _, one := range g.users[user.Name] {
		if !see(one) {
			return false
		}
	}
	for _, group := range user.Groups {
		for _, one := range g.groups[group] {
			if !see(one) {
				return false
			}
		}
	}
	return true
}

// add adds a binding. namespace is that of a RoleBinding; name is the binding's name as Kubernetes
// shows it.
func (g grants) add(kind, name, namespace string, ref rbacv1.RoleRef, subjects []rbacv1.Subject, role *grantee) {
	for _, subject := range subjects {
		who := subject.Name
		to, of := g.users, rbacv1.UserKind
		shown := subject.Name
		switch subject.Kind {
		case rbacv1.UserKind:
		case rbacv1.GroupKind:
			to, of = g.groups, rbacv1.GroupKind
		case rbacv1.ServiceAccountKind:
			home := cmp.Or(subject.Namespace, namespace)
			if home == "" {
				continue
			}
			who, shown = "system:serviceaccount:"+home+":"+subject.Name, subject.Name+"/"+home
		default:
			continue
		}
		if g.has[held{of, who, role}] {
			continue
		}
		g.has[held{of, who, role}] = true
		to[who] = append(to[who], &grant{grantee: role, reason: fmt.Sprintf(
			"RBAC: allowed by %s %q of %s %q to %s %q", kind, name, ref.Kind, ref.Name, subject.Kind, shown)})
	}
}

// wide caches the index of what is granted by ClusterRoleBindings.
type wide struct {
	caches Caches
	now    atomic.Pointer[wideIndex]
	making sync.Mutex
}

// wideIndex is what ClusterRoleBindings granted at some versions of the caches. It is immutable.
type wideIndex struct {
	bindings, roles feed.Version
	clusterRoles    map[string]*grantee
	granted         []*rbacv1.ClusterRoleBinding
	grants          grants
}

// index returns the present index.
func (w *wide) index() (*wideIndex, error) {
	have := w.now.Load()
	if have == nil {
		have = &wideIndex{}
	}
	roles, rolesNow, rolesChanged := w.caches.ClusterRoles.CachedSince(fabric.View{}, have.roles)
	bindings, bindingsNow, bindingsChanged := w.caches.ClusterRoleBindings.CachedSince(fabric.View{}, have.bindings)
	if rolesNow == (feed.Version{}) || bindingsNow == (feed.Version{}) {
		return nil, errNotRead
	}
	if !rolesChanged && !bindingsChanged {
		return have, nil
	}
	made := &wideIndex{bindings: bindingsNow, roles: rolesNow, clusterRoles: have.clusterRoles, granted: have.granted}
	if rolesChanged {
		made.clusterRoles = byName(roles, func(role *rbacv1.ClusterRole) []rbacv1.PolicyRule { return role.Rules })
	}
	if bindingsChanged {
		made.granted = sorted[*rbacv1.ClusterRoleBinding](bindings)
	}
	found, missing := newGrants(), map[rbacv1.RoleRef]*grantee{}
	for _, binding := range made.granted {
		found.add("ClusterRoleBinding", binding.Name, "", binding.RoleRef, binding.Subjects, made.role(binding.RoleRef, missing))
	}
	made.grants = found.made()
	w.keep(made)
	return made, nil
}

// keep stores an index, unless another request has stored a newer one meanwhile.
func (w *wide) keep(made *wideIndex) {
	w.making.Lock()
	defer w.making.Unlock()
	if have := w.now.Load(); have == nil || !newer(have.roles, made.roles) && !newer(have.bindings, made.bindings) {
		w.now.Store(made)
	}
}

func newer(a, b feed.Version) bool { return a.Start > b.Start || a.Start == b.Start && a.Head > b.Head }

// role returns the role that a reference to a ClusterRole finds. All references to one role share
// it. missing holds the roles that were not found.
func (w *wideIndex) role(ref rbacv1.RoleRef, missing map[rbacv1.RoleRef]*grantee) *grantee {
	if ref.Kind != "ClusterRole" {
		return absent(missing, ref, fmt.Errorf("unsupported role reference kind: %q", ref.Kind))
	}
	if role := w.clusterRoles[ref.Name]; role != nil {
		return role
	}
	return absent(missing, ref, notFound("clusterrole", ref.Name))
}

// absent returns the grantee of a reference to a role that doesn't exist.
func absent(missing map[rbacv1.RoleRef]*grantee, ref rbacv1.RoleRef, why error) *grantee {
	if missing[ref] == nil {
		missing[ref] = &grantee{missing: why}
	}
	return missing[ref]
}

// notFound names a missing role as Kubernetes' listers do, in the singular.
func notFound(kind, name string) error { return apierrors.NewNotFound(rbacv1.Resource(kind), name) }

// local caches the indexes of what is granted in namespaces. It only keeps those of namespaces with
// RoleBindings, since any user may ask about any name.
type local struct {
	caches  Caches
	mu      sync.RWMutex
	indexes map[string]*namespaceIndex
}

type namespaceIndex struct {
	bindings, roles, clusterRoles feed.Version
	grants                        grants
}

// index returns the present index of a namespace.
func (l *local) index(namespace string, wide *wideIndex) (grants, error) {
	l.mu.RLock()
	have := l.indexes[namespace]
	l.mu.RUnlock()
	if have == nil {
		have = &namespaceIndex{}
	}
	view := fabric.View{Namespace: namespace}
	bindings, bindingsNow, changed := l.caches.RoleBindings.CachedSince(view, have.bindings)
	if bindingsNow == (feed.Version{}) {
		return grants{}, errNotRead
	}
	if changed && len(bindings) == 0 {
		l.keep(namespace, nil)
		return grants{}, nil
	}
	roles, rolesNow, rolesChanged := l.caches.Roles.CachedSince(view, have.roles)
	if rolesNow == (feed.Version{}) {
		return grants{}, errNotRead
	}
	if !changed && !rolesChanged && have.clusterRoles == wide.roles {
		return have.grants, nil
	}
	// Both are read again without a version, so that the index doesn't need to retain objects.
	if !changed {
		bindings, bindingsNow, changed = l.caches.RoleBindings.CachedSince(view, feed.Version{})
	}
	if !rolesChanged {
		roles, rolesNow, rolesChanged = l.caches.Roles.CachedSince(view, feed.Version{})
	}
	if !changed || !rolesChanged {
		return have.grants, nil // The caches cannot be read at the moment.
	}
	found, missing := newGrants(), map[rbacv1.RoleRef]*grantee{}
	own := byName(roles, func(role *rbacv1.Role) []rbacv1.PolicyRule { return role.Rules })
	for _, binding := range sorted[*rbacv1.RoleBinding](bindings) {
		ref := binding.RoleRef
		role := own[ref.Name]
		switch {
		case ref.Kind != "Role":
			role = wide.role(ref, missing)
		case role == nil:
			role = absent(missing, ref, notFound("role", ref.Name))
		}
		found.add("RoleBinding", binding.Name+"/"+namespace, namespace, ref, binding.Subjects, role)
	}
	made := &namespaceIndex{bindings: bindingsNow, roles: rolesNow, clusterRoles: wide.roles, grants: found.made()}
	l.keep(namespace, made)
	return made.grants, nil
}

// keep stores a namespace's index, or removes it if made is nil, unless another request has stored
// a newer one.
func (l *local) keep(namespace string, made *namespaceIndex) {
	if made == nil {
		l.mu.RLock()
		_, ok := l.indexes[namespace]
		l.mu.RUnlock()
		if !ok {
			return
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if made == nil {
		delete(l.indexes, namespace)
		return
	}
	have := l.indexes[namespace]
	if have == nil || !newer(have.bindings, made.bindings) && !newer(have.roles, made.roles) && !newer(have.clusterRoles, made.clusterRoles) {
		l.indexes[namespace] = made
	}
}

func byName[T scheme.Object](objects []scheme.Object, rules func(T) []rbacv1.PolicyRule) map[string]*grantee {
	named := make(map[string]*grantee, len(objects))
	for _, obj := range objects {
		if typed, ok := obj.(T); ok {
			named[obj.GetName()] = &grantee{rules: rules(typed)}
		}
	}
	return named
}

// sorted returns the objects sorted by name, so that a request is always allowed for the same
// reason.
func sorted[T scheme.Object](objects []scheme.Object) []T {
	typed := make([]T, 0, len(objects))
	for _, obj := range objects {
		if one, ok := obj.(T); ok {
			typed = append(typed, one)
		}
	}
	slices.SortFunc(typed, func(a, b T) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return typed
}
