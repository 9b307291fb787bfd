package rbac_test

import (
	"fmt"
	"slices"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
)

// TestOneRoleCountsOnce: binding one role a hundred times makes no request evaluate its rules a
// hundred times, and the reason is that of the first binding.
func TestOneRoleCountsOnce(t *testing.T) {
	w := newWorld()
	w.roles.add(role("a", "much", rule([]string{"list"}, []string{""}, []string{"pods"}), rule([]string{"get"}, []string{""}, []string{"pods"})))
	w.clusterRoles.add(clusterRole("c", rule([]string{"list"}, []string{""}, []string{"nodes"})))
	for i := range 100 {
		name := fmt.Sprintf("rb-%02d", i)
		w.bindings.add(binding("a", name, refer("Role", "much"), groupNamed("g"), groupNamed("g"), userNamed("g")))
		w.clusterBindings.add(clusterBinding(name, "c", groupNamed("g")))
	}
	user := authn.User{Name: "u", Groups: []string{"g"}}
	rules, err := w.PolicyRules(user, "a")
	if err != nil || len(rules) != 3 {
		t.Errorf("got %d rules, %v; want 3", len(rules), err)
	}
	var seen int
	if err := w.Granted(user, "a", func(rules []rbacv1.PolicyRule) bool { seen += len(rules); return true }); err != nil || seen != 2 {
		t.Errorf("visited %d rules in the namespace, %v; want 2", seen, err)
	}
	if err := w.Granted(user, "", func(rules []rbacv1.PolicyRule) bool { seen += len(rules); return true }); err != nil || seen != 3 {
		t.Errorf("visited %d rules everywhere, %v; want 1", seen-2, err)
	}
	_, reason, err := w.Authorize(t.Context(), user, list("pods", "a"))
	if want := `RBAC: allowed by RoleBinding "rb-00/a" of Role "much" to Group "g"`; reason != want || err != nil {
		t.Errorf("got %q, %v; want %q", reason, err, want)
	}
}

// TestNamespacesOfManySubjects: naming very many subjects in one namespace does not grow the index
// of all namespaces.
func TestNamespacesOfManySubjects(t *testing.T) {
	w := newWorld()
	subjects := []rbacv1.Subject{userNamed("u")}
	for i := range 10_000 {
		subjects = append(subjects, userNamed(fmt.Sprint("user-", i)))
	}
	w.clusterRoles.add(clusterRole("c", rule([]string{"list"}, []string{""}, []string{"pods"})))
	w.bindings.add(binding("b", "rb", refer("ClusterRole", "c"), userNamed("u")), binding("a", "rb", refer("ClusterRole", "c"), userNamed("u")),
		binding("hostile", "rb", refer("ClusterRole", "c"), subjects...))
	got, err := w.Namespaces(authn.User{Name: "u"})
	if err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("got %v, %v; want a and b", got, err)
	}
	if decision, _, err := w.Authorize(t.Context(), authn.User{Name: "user-7"}, list("pods", "hostile")); decision != authz.Allow || err != nil {
		t.Errorf("a right in the large namespace is not granted over HTTP: %v, %v", decision, err)
	}
}

// TestVersions: the versions change whenever an object that decides changes, and only then.
func TestVersions(t *testing.T) {
	w := newWorld()
	have := w.Versions(rbac.Versions{})
	for what, change := range map[string]func(){
		"a Role":               func() { w.roles.add(role("a", "r")) },
		"a RoleBinding":        func() { w.bindings.add(binding("a", "b", refer("Role", "r"))) },
		"a ClusterRole":        func() { w.clusterRoles.add(clusterRole("r")) },
		"a ClusterRoleBinding": func() { w.clusterBindings.add(clusterBinding("b", "r")) },
	} {
		if now := w.Versions(have); now != have {
			t.Errorf("before %s: %v became %v", what, have, now)
		}
		change()
		now := w.Versions(have)
		if now == have || now != w.Versions(rbac.Versions{}) {
			t.Errorf("after %s: %v became %v", what, have, now)
		}
		have = now
	}
}
