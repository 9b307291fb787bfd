package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Allows reports whether a rule allows a request.
func Allows(rule *rbacv1.PolicyRule, a authz.Attributes) bool {
	if !oneOf(rule.Verbs, a.Verb, rbacv1.VerbAll) {
		return false
	}
	if !a.IsResource() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool { return urlMatches(url, a.Path) })
	}
	return oneOf(rule.APIGroups, a.Group, rbacv1.APIGroupAll) &&
		slices.ContainsFunc(rule.Resources, func(r string) bool { return resourceMatches(r, a.Resource, a.Subresource) }) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.Name))
}

func oneOf(values []string, wanted, all string) bool {
	for _, value := range values {
		if value == wanted || value == all {
			return true
		}
	}
	return false
}

// resourceMatches reports whether a rule's resource (RESOURCE, RESOURCE/SUBRESOURCE, */SUBRESOURCE
// or * for everything) matches the request's. It allocates nothing, since it runs for every rule of
// every request.
func resourceMatches(rule, resource, subresource string) bool {
	if rule == rbacv1.ResourceAll {
		return true
	}
	if rule == resource {
		return subresource == ""
	}
	if subresource == "" || !strings.HasSuffix(rule, subresource) {
		return false
	}
	of, ok := strings.CutSuffix(rule[:len(rule)-len(subresource)], "/")
	return ok && (of == "*" || of == resource)
}

// urlMatches reports whether a rule's path equals the request's path or, if it ends with *, is a
// prefix of it.
func urlMatches(rule, path string) bool {
	if rule == path {
		return true
	}
	return strings.HasSuffix(rule, "*") && strings.HasPrefix(path, strings.TrimRight(rule, "*"))
}
