package rbac_test

import (
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
)

func TestAllows(t *testing.T) {
	one := func(verbs, groups, resources, names string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			Verbs: strings.Fields(verbs), APIGroups: strings.Split(groups, " "), Resources: strings.Fields(resources), ResourceNames: strings.Fields(names),
		}
	}
	paths := func(verbs, urls string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), NonResourceURLs: strings.Fields(urls)}
	}
	on := func(verb, group, resource, subresource, name string) authz.Attributes {
		return authz.Attributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name}
	}
	for _, c := range []struct {
		rule rbacv1.PolicyRule
		a    authz.Attributes
		want bool
	}{
		{one("get", "", "pods", ""), on("get", "", "pods", "", ""), true},
		{one("get", "", "pods", ""), on("get", "", "pods", "", "any"), true},
		{one("get", "", "pods", ""), on("list", "", "pods", "", ""), false},
		{one("*", "", "pods", ""), on("escalate", "", "pods", "", ""), true},
		{one("get", "apps", "pods", ""), on("get", "", "pods", "", ""), false},
		{one("get", "*", "pods", ""), on("get", "x.y", "pods", "", ""), true},
		{one("get", "", "*", ""), on("get", "", "pods", "", ""), true},
		{one("get", "", "*", ""), on("get", "", "pods", "log", ""), true},
		{one("get", "", "pods", ""), on("get", "", "pods", "log", ""), false},
		{one("get", "", "pods/log", ""), on("get", "", "pods", "log", ""), true},
		{one("get", "", "pods/log", ""), on("get", "", "pods", "", ""), false},
		{one("get", "", "pods/log", ""), on("get", "", "pods", "exec", ""), false},
		{one("get", "", "*/log", ""), on("get", "", "pods", "log", ""), true},
		{one("get", "", "*/log", ""), on("get", "", "pods", "catalog", ""), false},
		{one("get", "", "*/catalog", ""), on("get", "", "pods", "log", ""), false},
		{one("get", "", "*/log", ""), on("get", "", "pods", "", ""), false},
		{one("get", "", "pods/*", ""), on("get", "", "pods", "log", ""), false}, // Kubernetes has no such pattern.
		{one("get", "", "pods", "a b"), on("get", "", "pods", "", "b"), true},
		{one("get", "", "pods", "a b"), on("get", "", "pods", "", "c"), false},
		{one("list", "", "pods", "a b"), on("list", "", "pods", "", ""), false},
		{one("get", "", "pods", ""), authz.Attributes{Verb: "get", Path: "/pods"}, false},
		{paths("get", "/healthz"), authz.Attributes{Verb: "get", Path: "/healthz"}, true},
		{paths("get", "/healthz"), authz.Attributes{Verb: "post", Path: "/healthz"}, false},
		{paths("get", "/healthz"), authz.Attributes{Verb: "get", Path: "/healthz/etcd"}, false},
		{paths("get", "/healthz/*"), authz.Attributes{Verb: "get", Path: "/healthz/etcd"}, true},
		{paths("get", "/healthz/*"), authz.Attributes{Verb: "get", Path: "/healthz"}, false},
		{paths("get", "/healthz*"), authz.Attributes{Verb: "get", Path: "/healthz"}, true},
		{paths("*", "*"), authz.Attributes{Verb: "delete", Path: "/"}, true},
		{paths("*", "*"), authz.Attributes{Verb: "delete", NonResource: true}, true},
		{paths("*", "*"), on("get", "", "pods", "", ""), false},
		{paths("get", "*/healthz"), authz.Attributes{Verb: "get", Path: "/a/healthz"}, false},
	} {
		if got := rbac.Allows(&c.rule, c.a); got != c.want {
			t.Errorf("%v on %+v: got %v, want %v", c.rule, c.a, got, c.want)
		}
	}
}

// naive implements the documented meaning of a rule, without regard for speed.
func naive(rule rbacv1.PolicyRule, a authz.Attributes) bool {
	has := slices.ContainsFunc[[]string]
	if !has(rule.Verbs, func(v string) bool { return v == "*" || v == a.Verb }) {
		return false
	}
	if a.Path != "" || a.NonResource {
		return has(rule.NonResourceURLs, func(u string) bool {
			if strings.HasSuffix(u, "*") {
				if strings.HasPrefix(a.Path, strings.TrimRight(u, "*")) {
					return true
				}
			}
			return u == a.Path
		})
	}
	full := a.Resource
	if a.Subresource != "" {
		full += "/" + a.Subresource
	}
	return has(rule.APIGroups, func(g string) bool { return g == "*" || g == a.Group }) &&
		has(rule.Resources, func(r string) bool {
			return r == "*" || r == full || a.Subresource != "" && r == "*/"+a.Subresource
		}) &&
		(len(rule.ResourceNames) == 0 || has(rule.ResourceNames, func(n string) bool { return n == a.Name }))
}

// FuzzAllows compares rule matching with the naive model.
func FuzzAllows(f *testing.F) {
	f.Add("get list", "apps", "pods pods/log */scale", "a b", "/x /y*", "get", "apps", "pods", "log", "a", "")
	f.Add("*", "*", "*", "", "*", "list", "", "x/y", "z", "", "")
	f.Add("get", "", "x/y/z */y/z", "", "/a**", "get", "", "x/y", "z", "", "/a")
	f.Fuzz(func(t *testing.T, verbs, groups, resources, names, urls, verb, group, resource, subresource, name, path string) {
		rule := rbacv1.PolicyRule{
			Verbs: strings.Fields(verbs), APIGroups: strings.Split(groups, " "), Resources: strings.Fields(resources),
			ResourceNames: strings.Fields(names), NonResourceURLs: strings.Fields(urls),
		}
		a := authz.Attributes{Verb: verb, Group: group, Resource: resource, Subresource: subresource, Name: name, Path: path}
		if got, want := rbac.Allows(&rule, a), naive(rule, a); got != want {
			t.Errorf("%v on %+v: got %v, want %v", rule, a, got, want)
		}
	})
}
