package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Missing returns the rights in wanted that held does not cover, each as a rule of one verb and one
// resource, path or name. It returns nil if held covers wanted. As in Kubernetes, a right is
// covered by a single rule, never by several together.
func Missing(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var missing []rbacv1.PolicyRule
	for _, rule := range wanted {
		for _, right := range rights(rule) {
			if !slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool { return covers(h, right) }) {
				missing = append(missing, right)
			}
		}
	}
	return missing
}

// rights splits a rule into its rights.
func rights(rule rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var parts []rbacv1.PolicyRule
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				one := rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}}
				if len(rule.ResourceNames) == 0 {
					parts = append(parts, one)
				}
				for _, name := range rule.ResourceNames {
					named := one
					named.ResourceNames = []string{name}
					parts = append(parts, named)
				}
			}
		}
	}
	for _, url := range rule.NonResourceURLs {
		for _, verb := range rule.Verbs {
			parts = append(parts, rbacv1.PolicyRule{NonResourceURLs: []string{url}, Verbs: []string{verb}})
		}
	}
	return parts
}

// covers reports whether a rule contains a right.
func covers(held, right rbacv1.PolicyRule) bool {
	return contains(held.Verbs, right.Verbs, rbacv1.VerbAll, nil) &&
		contains(held.APIGroups, right.APIGroups, rbacv1.APIGroupAll, nil) &&
		contains(held.Resources, right.Resources, rbacv1.ResourceAll, anySubresource) &&
		contains(held.NonResourceURLs, right.NonResourceURLs, "", urlMatches) &&
		(len(held.ResourceNames) == 0 || len(right.ResourceNames) > 0 && contains(held.ResourceNames, right.ResourceNames, "", nil))
}

// contains reports whether held has all, or has each item of wanted: the item itself or one that
// contains it according to contained.
func contains(held, wanted []string, all string, contained func(held, wanted string) bool) bool {
	if all != "" && slices.Contains(held, all) {
		return true
	}
	for _, one := range wanted {
		if !slices.ContainsFunc(held, func(h string) bool { return h == one || contained != nil && contained(h, one) }) {
			return false
		}
	}
	return true
}

// anySubresource reports whether held is */SUBRESOURCE for the wanted subresource.
func anySubresource(held, wanted string) bool {
	_, subresource, ok := strings.Cut(wanted, "/")
	return ok && held == "*/"+subresource
}
