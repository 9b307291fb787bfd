package busauth

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
)

// maxAhead bounds the groups and kinds that are granted by what roles name, whether or not they are
// installed.
const maxAhead = 500

// ahead is what rules for all namespaces name without listing objects. Such a rule allows a kind
// whether or not it is installed, and of whichever scope it will be.
type ahead struct {
	groups map[string]bool               // All kinds of these groups are named.
	kinds  map[schema.GroupResource]bool // Each of these kinds is named.
}

// add records what a rule names, up to maxAhead. What the rule allows is for the authorizer to say.
func (a *ahead) add(rule *rbacv1.PolicyRule) {
	if a.groups == nil {
		a.groups, a.kinds = map[string]bool{}, map[schema.GroupResource]bool{}
	}
	reads := slices.ContainsFunc(rule.Verbs, func(verb string) bool { return verb == "list" || verb == "watch" || verb == rbacv1.VerbAll })
	if !reads || len(rule.ResourceNames) > 0 {
		return
	}
	whole := slices.Contains(rule.Resources, rbacv1.ResourceAll)
	for _, group := range rule.APIGroups {
		if group == rbacv1.APIGroupAll {
			continue // The kinds that are installed are looked at one by one.
		}
		if whole {
			if len(a.groups) < maxAhead {
				a.groups[group] = true
			}
			continue
		}
		if !strings.Contains(group, ".") {
			continue // A custom resource's group has a dot.
		}
		for _, resource := range rule.Resources {
			if len(a.kinds) >= maxAhead {
				return
			}
			if !strings.Contains(resource, "/") {
				a.kinds[schema.GroupResource{Group: group, Resource: resource}] = true
			}
		}
	}
}

// sorted returns the groups and the kinds in an order that does not change.
func (a *ahead) sorted() (groups []string, kinds []schema.GroupResource) {
	return slices.Sorted(maps.Keys(a.groups)), slices.SortedFunc(maps.Keys(a.kinds), func(x, y schema.GroupResource) int {
		return cmp.Or(cmp.Compare(x.Group, y.Group), cmp.Compare(x.Resource, y.Resource))
	})
}

// placeholder returns a kind that stands for whatever a rule names: a kind that is not installed,
// or with the resource "*" all kinds of a group, or with the group "*" too all kinds.
func placeholder(group, resource string) *scheme.Kind {
	return &scheme.Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: "*"}, Resource: resource}
}

// ahead grants what the user may read of kinds whether or not they are installed, so that it need
// not reconnect when one is: everything, all kinds of a group, or a kind. RBAC only adds rights, and
// its rules for "*" hold for kinds that come later. So these subjects carry nothing that the user
// may not read at the time. ahead returns the installed kinds that this does not cover.
//
// A pattern is granted only if the authorizer allows it and each installed kind below it.
func (s *search) ahead(ctx context.Context, named *ahead) []*scheme.Kind {
	rest := s.kinds.all
	// What a node may read does not only depend on roles.
	if _, isNode := node.Identity(s.user); isNode {
		return rest
	}
	if s.pattern(ctx, subject.AllWatch(), placeholder(rbacv1.APIGroupAll, rbacv1.ResourceAll), rest) {
		return nil
	}
	groups, kinds := named.sorted()
	covered := map[string]bool{}
	for _, group := range groups {
		if s.over(ctx) {
			return rest
		}
		of := slices.DeleteFunc(slices.Clone(s.kinds.all), func(kind *scheme.Kind) bool { return kind.Group != group })
		covered[group] = s.pattern(ctx, subject.Group(group), placeholder(group, rbacv1.ResourceAll), of)
	}
	for _, one := range kinds {
		if s.over(ctx) {
			return rest
		}
		if covered[one.Group] || s.cfg.Table.Stored(one) != nil {
			continue
		}
		if v := (view{kind: placeholder(one.Group, one.Resource)}); s.may(ctx, v) {
			s.found.keep(watched{subject: subject.Resource(one.Group, one.Resource), view: v})
		}
	}
	return slices.DeleteFunc(slices.Clone(rest), func(kind *scheme.Kind) bool { return covered[kind.Group] })
}

// pattern grants a subject for all kinds that what stands for, if the user may read these and all
// installed kinds of them. It reports whether it did.
func (s *search) pattern(ctx context.Context, at string, what *scheme.Kind, installed []*scheme.Kind) bool {
	if !s.may(ctx, view{kind: what}) {
		return false
	}
	for _, kind := range installed {
		if !s.may(ctx, view{kind: kind}) {
			return false
		}
	}
	s.found.keep(watched{subject: at, view: view{kind: what}})
	for _, kind := range installed {
		v := view{kind: kind}
		s.found.keep(watched{subject: subject.Resource(kind.Group, kind.Resource), view: v, covered: true})
	}
	return !s.found.full
}
