package busauth

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/authn"
	"github.com/garboard/garboard/services/apiserver/internal/authz"
	"github.com/garboard/garboard/services/apiserver/internal/authz/node"
)

// maxSubjects bounds the subjects that a client is given. What is beyond it he follows over
// HTTP.
const maxSubjects = 2000

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
	for _, kind := range d.cfg.Table.Kinds() {
		if kind.Stored() && kind.Group == ask.GetGroup() && kind.Resource == ask.GetResource() {
			return reader{d, user}.check(ctx, view{kind, ask.GetScope(), ask.GetNamespace(), ask.GetName()})
		}
	}
	return fmt.Errorf("the server could not find the requested resource %q", ask.GetResource())
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

// subjects are those of the watch messages that a user may read: of whole resources, or else
// of namespaces, of single names, and of a node's pods.
func (d *Decider) subjects(ctx context.Context, user authn.User) ([]string, error) {
	r := reader{d, user}
	namespaces, err := d.cfg.Roles.Namespaces(user)
	if err != nil {
		return nil, err
	}
	wide := d.rules(user, "")
	local := make(map[string][]rbacv1.PolicyRule, len(namespaces))
	for _, namespace := range namespaces {
		local[namespace] = d.rules(user, namespace)
	}
	var all []string
	for _, kind := range d.cfg.Table.Kinds() {
		if !kind.Stored() {
			continue
		}
		if r.may(ctx, view{kind: kind}) {
			all = append(all, bus.ResourceSubject(kind.Group, kind.Resource))
			continue
		}
		some := r.narrow(ctx, kind, wide)
		for _, namespace := range namespaces {
			if kind.Namespaced {
				some = append(some, r.within(ctx, kind, namespace, local[namespace])...)
			}
		}
		if len(some) > 0 {
			all = append(append(all, bus.ProgressSubject(kind.Group, kind.Resource)), some...)
		}
		if len(all) > maxSubjects {
			d.cfg.Logger.WarnContext(ctx, "A user may watch too much bit by bit; the rest he follows over HTTP", "user", user.Name, "bound", maxSubjects)
			return all[:maxSubjects], nil
		}
	}
	return all, nil
}

// narrow are the subjects of what a user who may not read all of a kind may read of it
// everywhere: a node his pods and his Node, others the names that their roles list.
func (r reader) narrow(ctx context.Context, kind *scheme.Kind, rules []rbacv1.PolicyRule) []string {
	var some []string
	names := named(rules, kind)
	if own, isNode := node.Identity(r.user); isNode && own != "" {
		if kind.Scope != nil && r.may(ctx, view{kind: kind, scope: own}) {
			some = append(some, bus.ViewSubject(kind.Group, kind.Resource, own, "", ""))
		}
		names = append(names, own)
	}
	for _, name := range names {
		if !kind.Namespaced && r.may(ctx, view{kind: kind, name: name}) {
			some = append(some, bus.ViewSubject(kind.Group, kind.Resource, "", "", name))
		}
	}
	return some
}

// within are the subjects of what he may read of a kind in a namespace.
func (r reader) within(ctx context.Context, kind *scheme.Kind, namespace string, rules []rbacv1.PolicyRule) []string {
	if r.may(ctx, view{kind: kind, namespace: namespace}) {
		return []string{bus.ViewSubject(kind.Group, kind.Resource, "", namespace, "")}
	}
	var some []string
	for _, name := range named(rules, kind) {
		if r.may(ctx, view{kind: kind, namespace: namespace, name: name}) {
			some = append(some, bus.ViewSubject(kind.Group, kind.Resource, "", namespace, name))
		}
	}
	return some
}

// rules are those that apply to a user, as far as the roles exist.
func (d *Decider) rules(user authn.User, namespace string) []rbacv1.PolicyRule {
	// The error names roles that are bound and do not exist.
	rules, _ := d.cfg.Roles.PolicyRules(user, namespace)
	return rules
}

// named are the names that rules list for a kind. Whether they allow anything of it is to be
// asked.
func named(rules []rbacv1.PolicyRule, kind *scheme.Kind) []string {
	var names []string
	for _, rule := range rules {
		if len(rule.ResourceNames) > 0 && (slices.Contains(rule.Resources, kind.Resource) || slices.Contains(rule.Resources, rbacv1.ResourceAll)) {
			names = append(names, rule.ResourceNames...)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
