package busauth

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/authn"
	"github.com/garboard/garboard/services/apiserver/internal/authz"
	"github.com/garboard/garboard/services/apiserver/internal/authz/node"
)

// Bounds of the subjects that a client is given. What is beyond them he follows over HTTP.
const (
	maxSubjects = 2000
	// maxSubjectBytes is for all of them: they are one message to NATS.
	maxSubjectBytes = 256 << 10
	// maxNames is how many names are looked at that roles list for everywhere, and maxLocalNames
	// for one namespace.
	maxNames, maxLocalNames = 500, 100
)

// reader says what of the bus one user may read.
type reader struct {
	*Decider
	user authn.User
}

// view is what one wants to read of a kind.
type view struct {
	kind                   *scheme.Kind
	scope, namespace, name string
}

// Authorize says whether an asker may read what he asks for: whether he may list and watch it.
// The error is Kubernetes' refusal.
func (d *Decider) Authorize(ctx context.Context, asker bus.Asker, ask *watchv1.Ask) error {
	user, err := User(asker.Identity)
	if err != nil {
		return err
	}
	if err := d.exists(ctx, user); err != nil {
		return err
	}
	for _, kind := range d.cfg.Table.Kinds() {
		if kind.Stored() && kind.Group == ask.GetGroup() && kind.Resource == ask.GetResource() {
			return reader{d, user}.check(ctx, view{kind, ask.GetScope(), ask.GetNamespace(), ask.GetName()})
		}
	}
	return fmt.Errorf("the server could not find the requested resource %q", ask.GetResource())
}

// exists says whether a service account that was let in is still there, and is still the same:
// its token is worth nothing else. Of who else was let in nothing is known until he comes again.
func (d *Decider) exists(ctx context.Context, user authn.User) error {
	account, ok := strings.CutPrefix(user.Name, authn.ServiceAccountUser)
	if !ok || user.UID == "" || d.cfg.Accounts == nil {
		return nil
	}
	namespace, name, _ := strings.Cut(account, ":")
	found, err := d.cfg.Accounts(ctx, namespace, name)
	switch {
	case apierrors.IsNotFound(err), err == nil && string(found.UID) != user.UID:
		return fmt.Errorf("the service account %s/%s has been deleted", namespace, name)
	case err != nil:
		// Nothing says that it is gone, and its connection ends soon.
		d.cfg.Logger.DebugContext(ctx, "a service account cannot be looked up", "namespace", namespace, "name", name, "err", err)
	}
	return nil
}

// check says whether the user may list and watch a view, asking as HTTP would: with the
// selectors that are the view's.
func (r reader) check(ctx context.Context, v view) error {
	want := authz.Attributes{
		Group: v.kind.Group, Version: v.kind.Version, Resource: v.kind.Resource, Namespace: v.namespace, Name: v.name,
	}
	if v.scope != "" && v.kind.Scope != nil {
		nodeName := v.scope
		if nodeName == scheme.Unscoped {
			nodeName = ""
		}
		want.Fields = append(want.Fields, fields.Requirement{Field: "spec.nodeName", Operator: selection.Equals, Value: nodeName})
	}
	if v.name != "" {
		want.Fields = append(want.Fields, fields.Requirement{Field: "metadata.name", Operator: selection.Equals, Value: v.name})
	}
	for _, verb := range []string{"list", "watch"} {
		want.Verb = verb
		if err := authz.Check(ctx, r.cfg.Authorizer, r.user, want); err != nil {
			return err
		}
	}
	return nil
}

func (r reader) may(ctx context.Context, v view) bool { return r.check(ctx, v) == nil }

// subjects are those of the watch messages that a user may read: of whole resources, or else of a
// node's own, of namespaces, and of single names.
//
// Whoever rules a namespace may bind a role of it to anybody, with as many names as he likes. So
// what is granted there comes last, and no more than a few names of it are looked at.
func (d *Decider) subjects(ctx context.Context, user authn.User) ([]string, error) {
	r := reader{d, user}
	namespaces, err := d.cfg.Roles.Namespaces(user)
	if err != nil {
		return nil, err
	}
	var all granted
	var parted []*scheme.Kind // Of these he may not read the whole.
	wide := d.rules(user, "")
	left := maxNames
	for _, kind := range d.cfg.Table.Kinds() {
		switch {
		case !kind.Stored():
		case r.may(ctx, view{kind: kind}):
			all.add(nil, bus.ResourceSubject(kind.Group, kind.Resource))
		default:
			parted = append(parted, kind)
			all.add(kind, r.narrow(ctx, kind, wide, &left)...)
		}
	}
	local := make(map[string][]rbacv1.PolicyRule, len(namespaces))
	for _, namespace := range namespaces {
		local[namespace] = d.rules(user, namespace)
		r.whole(ctx, &all, parted, namespace, local[namespace])
	}
	for _, namespace := range namespaces {
		r.single(ctx, &all, parted, namespace, local[namespace])
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("it took too long: %w", err)
	}
	if all.full {
		d.cfg.Logger.WarnContext(ctx, "A user may watch too much bit by bit; the rest he follows over HTTP", "user", user.Name, "bound", maxSubjects)
	}
	return all.subjects, nil
}

// granted are the subjects that a user is given, within their bounds.
type granted struct {
	subjects []string
	bytes    int
	full     bool
	parted   map[*scheme.Kind]bool // of which he has a part
}

// add adds subjects. If they are of parts of a kind, which is then given, he may read how far the
// kind is, too.
func (g *granted) add(kind *scheme.Kind, subjects ...string) {
	if kind != nil && len(subjects) > 0 && !g.parted[kind] {
		if g.parted == nil {
			g.parted = map[*scheme.Kind]bool{}
		}
		g.parted[kind] = true
		g.add(nil, bus.ProgressSubject(kind.Group, kind.Resource))
	}
	for _, subject := range subjects {
		if g.full = g.full || len(g.subjects) >= maxSubjects || g.bytes+len(subject) > maxSubjectBytes; g.full {
			return
		}
		g.subjects, g.bytes = append(g.subjects, subject), g.bytes+len(subject)
	}
}

// narrow are the subjects of what a user who may not read all of a kind may read of it
// everywhere: a node his pods and his Node, others the names that their roles list.
func (r reader) narrow(ctx context.Context, kind *scheme.Kind, rules []rbacv1.PolicyRule, left *int) []string {
	var some, names []string
	if own, isNode := node.Identity(r.user); isNode && own != "" {
		if kind.Scope != nil && r.may(ctx, view{kind: kind, scope: own}) {
			some = append(some, bus.ViewSubject(kind.Group, kind.Resource, own, "", ""))
		}
		names = append(names, own)
	}
	if kind.Namespaced {
		return some
	}
	for _, name := range append(names, named(rules, kind, left)...) {
		if r.may(ctx, view{kind: kind, name: name}) {
			some = append(some, bus.ViewSubject(kind.Group, kind.Resource, "", "", name))
		}
	}
	return some
}

// whole adds the subjects of the kinds of which he may read all that is in a namespace.
func (r reader) whole(ctx context.Context, all *granted, kinds []*scheme.Kind, namespace string, rules []rbacv1.PolicyRule) {
	for _, kind := range kinds {
		unnamed := func(rule rbacv1.PolicyRule) bool { return len(rule.ResourceNames) == 0 && isAbout(rule, kind) }
		if all.full || ctx.Err() != nil || !kind.Namespaced || !slices.ContainsFunc(rules, unnamed) {
			continue
		}
		if r.may(ctx, view{kind: kind, namespace: namespace}) {
			all.add(kind, bus.ViewSubject(kind.Group, kind.Resource, "", namespace, ""))
		}
	}
}

// single adds the subjects of the single names that he may read in a namespace, but not beside
// those of all that is in it.
func (r reader) single(ctx context.Context, all *granted, kinds []*scheme.Kind, namespace string, rules []rbacv1.PolicyRule) {
	left := maxLocalNames
	for _, kind := range kinds {
		if all.full || ctx.Err() != nil || !kind.Namespaced {
			continue
		}
		names := named(rules, kind, &left)
		if len(names) == 0 || slices.Contains(all.subjects, bus.ViewSubject(kind.Group, kind.Resource, "", namespace, "")) {
			continue
		}
		for _, name := range names {
			if r.may(ctx, view{kind: kind, namespace: namespace, name: name}) {
				all.add(kind, bus.ViewSubject(kind.Group, kind.Resource, "", namespace, name))
			}
		}
	}
}

// rules are those that apply to a user, as far as the roles exist.
func (d *Decider) rules(user authn.User, namespace string) []rbacv1.PolicyRule {
	// The error names roles that are bound and do not exist.
	rules, _ := d.cfg.Roles.PolicyRules(user, namespace)
	return rules
}

// named are the names that rules list for a kind, at most as many as are left. Whether they allow
// anything of it is to be asked.
func named(rules []rbacv1.PolicyRule, kind *scheme.Kind, left *int) []string {
	var names []string
	for _, rule := range rules {
		if isAbout(rule, kind) {
			n := min(*left, len(rule.ResourceNames))
			names = append(names, rule.ResourceNames[:n]...)
			*left -= n
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func isAbout(rule rbacv1.PolicyRule, kind *scheme.Kind) bool {
	return slices.Contains(rule.Resources, kind.Resource) || slices.Contains(rule.Resources, rbacv1.ResourceAll)
}
