package upstream

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/garboard/garboard/services/apiserver/internal/upkeep/bootstraproles"
)

// policyTexts maps what a role or binding is called to what it says, one line for each rule and
// subject, in a fixed order.
type policyTexts map[string][]string

func (p policyTexts) add(kind string, about metav1.ObjectMeta, lines ...string) {
	for _, marks := range []map[string]string{about.Labels, about.Annotations} {
		for _, key := range slices.Sorted(maps.Keys(marks)) {
			lines = append(lines, "mark "+key+"="+marks[key])
		}
	}
	slices.Sort(lines)
	p[kind+" "+about.Namespace+"/"+about.Name] = lines
}

// policyRules returns rules as text. The order of the values in a rule, and of the rules, means
// nothing.
func policyRules(rules []rbacv1.PolicyRule) []string {
	var lines []string
	for _, rule := range rules {
		var parts []string
		for _, values := range [][]string{rule.Verbs, rule.APIGroups, rule.Resources, rule.ResourceNames, rule.NonResourceURLs} {
			parts = append(parts, fmt.Sprintf("%q", slices.Sorted(slices.Values(values))))
		}
		lines = append(lines, "rule "+strings.Join(parts, " "))
	}
	return lines
}

func policySubjects(ref rbacv1.RoleRef, subjects []rbacv1.Subject) []string {
	lines := []string{fmt.Sprintf("role %s/%s/%s", ref.APIGroup, ref.Kind, ref.Name)}
	for _, s := range subjects {
		lines = append(lines, fmt.Sprintf("subject %s/%s %s/%s", s.APIGroup, s.Kind, s.Namespace, s.Name))
	}
	return lines
}

// aggregation returns the selectors of a role that is the sum of others.
func aggregation(rule *rbacv1.AggregationRule) []string {
	var lines []string
	if rule != nil {
		for _, selector := range rule.ClusterRoleSelectors {
			lines = append(lines, "sum of "+metav1.FormatLabelSelector(&selector))
		}
	}
	return lines
}

// withoutAddition returns the subjects that a binding has in Kubernetes. Our controllers share one user,
// which is bound to each controller's role; the package bootstraproles tells why and tests that no one
// else gains by it. Without the addition a controller's binding equals none of Kubernetes'.
func withoutAddition(binding metav1.ObjectMeta, subjects []rbacv1.Subject) []rbacv1.Subject {
	if !slices.Contains(bootstraproles.SharedByControllers(), binding.Namespace+"/"+binding.Name) {
		return subjects
	}
	kept := slices.DeleteFunc(slices.Clone(subjects), func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.UserKind && s.Name == "system:kube-controller-manager"
	})
	if len(kept) == len(subjects) {
		return nil
	}
	return kept
}

func ourPolicy() policyTexts {
	p, ours := policyTexts{}, bootstraproles.Default()
	ours.ClusterRoles = slices.DeleteFunc(ours.ClusterRoles, func(role *rbacv1.ClusterRole) bool { return slices.Contains(bootstraproles.Own(), role.Name) })
	ours.ClusterRoleBindings = slices.DeleteFunc(ours.ClusterRoleBindings, func(binding *rbacv1.ClusterRoleBinding) bool {
		return slices.Contains(bootstraproles.Own(), binding.Name)
	})
	for _, role := range ours.ClusterRoles {
		p.add("ClusterRole", role.ObjectMeta, append(policyRules(role.Rules), aggregation(role.AggregationRule)...)...)
	}
	for _, binding := range ours.ClusterRoleBindings {
		p.add("ClusterRoleBinding", binding.ObjectMeta, policySubjects(binding.RoleRef, withoutAddition(binding.ObjectMeta, binding.Subjects))...)
	}
	for _, role := range ours.Roles {
		p.add("Role", role.ObjectMeta, policyRules(role.Rules)...)
	}
	for _, binding := range ours.RoleBindings {
		p.add("RoleBinding", binding.ObjectMeta, policySubjects(binding.RoleRef, withoutAddition(binding.ObjectMeta, binding.Subjects))...)
	}
	return p
}

func theirPolicy() policyTexts {
	p := policyTexts{}
	for _, role := range slices.Concat(bootstrappolicy.ClusterRoles(), bootstrappolicy.ControllerRoles()) {
		p.add("ClusterRole", role.ObjectMeta, append(policyRules(role.Rules), aggregation(role.AggregationRule)...)...)
	}
	for _, binding := range slices.Concat(bootstrappolicy.ClusterRoleBindings(), bootstrappolicy.ControllerRoleBindings()) {
		p.add("ClusterRoleBinding", binding.ObjectMeta, policySubjects(binding.RoleRef, binding.Subjects)...)
	}
	for namespace, roles := range bootstrappolicy.NamespaceRoles() {
		for _, role := range roles {
			role.Namespace = cmp.Or(role.Namespace, namespace)
			p.add("Role", role.ObjectMeta, policyRules(role.Rules)...)
		}
	}
	for namespace, bindings := range bootstrappolicy.NamespaceRoleBindings() {
		for _, binding := range bindings {
			binding.Namespace = cmp.Or(binding.Namespace, namespace)
			p.add("RoleBinding", binding.ObjectMeta, policySubjects(binding.RoleRef, binding.Subjects)...)
		}
	}
	return p
}

// TestBootstrapRoles compares every bootstrap role and binding, rule by rule, and the rules of nodes, with
// Kubernetes' feature gates as they are by default.
func TestBootstrapRoles(t *testing.T) {
	ours, theirs := ourPolicy(), theirPolicy()
	ours.add("rules of nodes", metav1.ObjectMeta{}, policyRules(bootstraproles.NodeRules())...)
	theirs.add("rules of nodes", metav1.ObjectMeta{}, policyRules(bootstrappolicy.NodeRules())...)
	names := maps.Clone(ours)
	maps.Copy(names, theirs)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		_, we := ours[name]
		_, they := theirs[name]
		if !we || !they {
			t.Errorf("%s: we have it: %t, Kubernetes has it: %t", name, we, they)
			continue
		}
		for _, line := range ours[name] {
			if !slices.Contains(theirs[name], line) {
				t.Errorf("%s: only ours: %s", name, line)
			}
		}
		for _, line := range theirs[name] {
			if !slices.Contains(ours[name], line) {
				t.Errorf("%s: only Kubernetes': %s", name, line)
			}
		}
	}
	if len(theirs) < 140 {
		t.Errorf("compared only %d roles and bindings", len(theirs))
	}
}
