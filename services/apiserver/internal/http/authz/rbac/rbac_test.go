package rbac_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cache stands for a feed.
type cache struct {
	mu       sync.Mutex
	objects  []scheme.Object
	revision int64
	away     bool // cannot be read
	reads    int  // how often objects were returned
}

func (c *cache) CachedSince(view fabric.View, have feed.Version) ([]scheme.Object, feed.Version, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := feed.Version{Start: 1, Head: c.revision}
	if c.away || now == have {
		return nil, have, false
	}
	c.reads++
	var in []scheme.Object
	for _, obj := range c.objects {
		if view.Namespace == "" || obj.GetNamespace() == view.Namespace {
			in = append(in, obj)
		}
	}
	return in, now, true
}

func (c *cache) add(objects ...scheme.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	c.objects = append(c.objects, objects...)
}

func (c *cache) remove(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.revision++
	c.objects = slices.DeleteFunc(c.objects, func(obj scheme.Object) bool { return obj.GetName() == name })
}

// world is a set of caches with an authorizer that reads them.
type world struct {
	*rbac.Authorizer
	roles, bindings, clusterRoles, clusterBindings cache
}

func newWorld() *world {
	w := &world{}
	w.Authorizer = rbac.New(rbac.Caches{
		Roles: &w.roles, RoleBindings: &w.bindings, ClusterRoles: &w.clusterRoles, ClusterRoleBindings: &w.clusterBindings,
	})
	w.roles.add()
	w.bindings.add()
	w.clusterRoles.add()
	w.clusterBindings.add()
	return w
}

func rule(verbs, groups, resources []string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: verbs, APIGroups: groups, Resources: resources, ResourceNames: names}
}

func clusterRole(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
}

func role(namespace, name string, rules ...rbacv1.PolicyRule) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules}
}

func refer(kind, name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
}

func clusterBinding(name, role string, subjects ...rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: refer("ClusterRole", role), Subjects: subjects}
}

func binding(namespace, name string, ref rbacv1.RoleRef, subjects ...rbacv1.Subject) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: ref, Subjects: subjects}
}

func userNamed(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}
}

func groupNamed(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "Group", APIGroup: rbacv1.GroupName, Name: name}
}

func account(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: "ServiceAccount", Namespace: namespace, Name: name}
}

func list(resource, namespace string) authz.Attributes {
	return authz.Attributes{Verb: "list", Resource: resource, Namespace: namespace}
}

func TestWhoIsBound(t *testing.T) {
	w := newWorld()
	pods := rule([]string{"list"}, []string{""}, []string{"pods"})
	w.clusterRoles.add(clusterRole("pods", pods))
	w.roles.add(role("a", "pods", pods), role("b", "pods", rule([]string{"get"}, []string{""}, []string{"pods"})))
	w.clusterBindings.add(
		clusterBinding("users", "pods", userNamed("everywhere"), groupNamed("ops")),
		clusterBinding("accounts", "pods", account("ci", "robot"), account("", "homeless")))
	w.bindings.add(
		binding("a", "cluster", refer("ClusterRole", "pods"), userNamed("in-a")),
		binding("a", "own", refer("Role", "pods"), userNamed("own-a"), account("", "local"), groupNamed("team-a")),
		binding("b", "own", refer("Role", "pods"), userNamed("own-b")))
	for _, c := range []struct {
		user   authn.User
		a      authz.Attributes
		want   bool
		reason string
	}{
		{authn.User{Name: "everywhere"}, list("pods", ""), true, `RBAC: allowed by ClusterRoleBinding "users" of ClusterRole "pods" to User "everywhere"`},
		{authn.User{Name: "everywhere"}, list("pods", "a"), true, `RBAC: allowed by ClusterRoleBinding "users" of ClusterRole "pods" to User "everywhere"`},
		{authn.User{Name: "x", Groups: []string{"y", "ops"}}, list("pods", "zzz"), true, `RBAC: allowed by ClusterRoleBinding "users" of ClusterRole "pods" to Group "ops"`},
		{authn.User{Name: "ops"}, list("pods", ""), false, ""},
		{authn.User{Name: "x", Groups: []string{"everywhere"}}, list("pods", ""), false, ""},
		{authn.User{Name: "system:serviceaccount:ci:robot"}, list("pods", ""), true, `RBAC: allowed by ClusterRoleBinding "accounts" of ClusterRole "pods" to ServiceAccount "robot/ci"`},
		{authn.User{Name: "robot"}, list("pods", ""), false, ""},
		{authn.User{Name: "system:serviceaccount::homeless"}, list("pods", ""), false, ""},
		{authn.User{Name: "in-a"}, list("pods", "a"), true, `RBAC: allowed by RoleBinding "cluster/a" of ClusterRole "pods" to User "in-a"`},
		{authn.User{Name: "in-a"}, list("pods", "b"), false, ""},
		{authn.User{Name: "in-a"}, list("pods", ""), false, ""},
		{authn.User{Name: "own-a"}, list("pods", "a"), true, `RBAC: allowed by RoleBinding "own/a" of Role "pods" to User "own-a"`},
		{authn.User{Name: "own-a"}, list("secrets", "a"), false, ""},
		{authn.User{Name: "own-b"}, list("pods", "b"), false, ""},
		{authn.User{Name: "system:serviceaccount:a:local"}, list("pods", "a"), true, `RBAC: allowed by RoleBinding "own/a" of Role "pods" to ServiceAccount "local/a"`},
		{authn.User{Name: "system:serviceaccount:b:local"}, list("pods", "a"), false, ""},
		{authn.User{Name: "x", Groups: []string{"team-a"}}, list("pods", "a"), true, `RBAC: allowed by RoleBinding "own/a" of Role "pods" to Group "team-a"`},
	} {
		decision, reason, err := w.Authorize(t.Context(), c.user, c.a)
		if (decision == authz.Allow) != c.want || decision == authz.Deny || reason != c.reason || err != nil {
			t.Errorf("%s, %+v: got %v, %q, %v, want %v, %q", c.user.Name, c.a, decision, reason, err, c.want, c.reason)
		}
	}
}

// TestMissingRoles: a refusal names the roles that are bound but missing, as Kubernetes does.
func TestMissingRoles(t *testing.T) {
	w := newWorld()
	w.clusterBindings.add(clusterBinding("one", "y", userNamed("u")))
	want := `pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace "x": RBAC: clusterrole.rbac.authorization.k8s.io "y" not found`
	if err := authz.Check(t.Context(), w, authn.User{Name: "u"}, list("pods", "x")); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	w.bindings.add(binding("x", "two", refer("Role", "z"), userNamed("u")), binding("x", "three", refer("ClusterRole", "y"), userNamed("u")))
	want = `pods is forbidden: User "u" cannot list resource "pods" in API group "" in the namespace "x": RBAC: [clusterrole.rbac.authorization.k8s.io "y" not found, role.rbac.authorization.k8s.io "z" not found]`
	if err := authz.Check(t.Context(), w, authn.User{Name: "u"}, list("pods", "x")); err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	if _, reason, err := w.Authorize(t.Context(), authn.User{Name: "other"}, list("pods", "x")); reason != "" || err != nil {
		t.Errorf("a user without bindings gets %q, %v", reason, err)
	}
}

// TestChangesAreEffectiveAtOnce: a change in the cache takes effect with the next request.
func TestChangesAreEffectiveAtOnce(t *testing.T) {
	w := newWorld()
	may := func(namespace string) bool {
		t.Helper()
		decision, _, err := w.Authorize(t.Context(), authn.User{Name: "u"}, list("pods", namespace))
		if err != nil {
			t.Fatal(err)
		}
		return decision == authz.Allow
	}
	pods := rule([]string{"list"}, []string{""}, []string{"pods"})
	for _, step := range []struct {
		what                 string
		do                   func()
		everywhere, inA, inB bool
	}{
		{what: "nothing", do: func() {}},
		{what: "a binding to a role that does not exist yet", do: func() { w.bindings.add(binding("a", "rb", refer("Role", "r"), userNamed("u"))) }},
		{what: "its role", do: func() { w.roles.add(role("a", "r", pods)) }, inA: true},
		{what: "the role's deletion", do: func() { w.roles.remove("r") }},
		{what: "a cluster role bound in b", do: func() {
			w.bindings.add(binding("b", "rb2", refer("ClusterRole", "c"), userNamed("u")))
			w.clusterRoles.add(clusterRole("c", pods))
		}, inB: true},
		{what: "new rules of the cluster role", do: func() {
			w.clusterRoles.remove("c")
			w.clusterRoles.add(clusterRole("c", rule([]string{"get"}, []string{""}, []string{"pods"})))
		}},
		{what: "its old rules again", do: func() {
			w.clusterRoles.remove("c")
			w.clusterRoles.add(clusterRole("c", pods))
		}, inB: true},
		{what: "a cluster role binding", do: func() { w.clusterBindings.add(clusterBinding("crb", "c", userNamed("u"))) }, everywhere: true, inA: true, inB: true},
		{what: "the deletion of the cluster role binding", do: func() { w.clusterBindings.remove("crb") }, inB: true},
		{what: "the deletion of the binding in b", do: func() { w.bindings.remove("rb2") }},
	} {
		step.do()
		if may("") != step.everywhere || may("a") != step.inA || may("b") != step.inB {
			t.Errorf("after %s: everywhere %v, a %v, b %v; want %v, %v, %v", step.what, may(""), may("a"), may("b"), step.everywhere, step.inA, step.inB)
		}
	}
}

// TestChangesAmongRequests: a request after a change sees the change, however many other requests
// run meanwhile.
func TestChangesAmongRequests(t *testing.T) {
	w := newWorld()
	w.clusterRoles.add(clusterRole("c", rule([]string{"list"}, []string{""}, []string{"pods"})))
	w.bindings.add(binding("a", "others", refer("ClusterRole", "c"), userNamed("other")))
	ended := make(chan struct{})
	var others sync.WaitGroup
	for range 4 {
		others.Go(func() {
			for {
				select {
				case <-ended:
					return
				default:
				}
				if decision, _, err := w.Authorize(t.Context(), authn.User{Name: "other"}, list("pods", "a")); decision != authz.Allow || err != nil {
					t.Errorf("another user gets %v, %v", decision, err)
					return
				}
			}
		})
	}
	may := func(want bool) {
		t.Helper()
		for _, namespace := range []string{"", "a"} {
			decision, _, err := w.Authorize(t.Context(), authn.User{Name: "u"}, list("pods", namespace))
			if wanted := want && namespace != ""; (decision == authz.Allow) != wanted || err != nil {
				t.Fatalf("in %q: got %v, %v, want %v", namespace, decision, err, wanted)
			}
		}
	}
	for i := range 200 {
		name := fmt.Sprint("rb-", i)
		w.bindings.add(binding("a", name, refer("ClusterRole", "c"), userNamed("u")))
		may(true)
		w.bindings.remove(name)
		may(false)
	}
	close(ended)
	others.Wait()
}

// TestNothingIsReadTwice: an index is built when something has changed, and only then.
func TestNothingIsReadTwice(t *testing.T) {
	w := newWorld()
	w.clusterRoles.add(clusterRole("c", rule([]string{"list"}, []string{""}, []string{"pods"})))
	w.bindings.add(binding("a", "rb", refer("ClusterRole", "c"), userNamed("u")))
	reads := func() int { return w.roles.reads + w.bindings.reads + w.clusterRoles.reads + w.clusterBindings.reads }
	ask := func() {
		if decision, _, err := w.Authorize(t.Context(), authn.User{Name: "u"}, list("pods", "a")); decision != authz.Allow || err != nil {
			t.Fatal(decision, err)
		}
	}
	ask()
	before := reads()
	for range 10 {
		ask()
	}
	if reads() != before {
		t.Errorf("10 requests without a change read the objects %d times, want 0", reads()-before)
	}
}

// TestCachesAway: the last index stays in use while the caches cannot be read; without one, the
// result is an error, not a refusal.
func TestCachesAway(t *testing.T) {
	w := newWorld()
	w.clusterRoles.add(clusterRole("c", rule([]string{"list"}, []string{""}, []string{"pods"})))
	w.clusterBindings.add(clusterBinding("crb", "c", userNamed("u")))
	away := func(is bool) {
		w.roles.away, w.bindings.away, w.clusterRoles.away, w.clusterBindings.away = is, is, is, is
	}
	away(true)
	if _, _, err := w.Authorize(t.Context(), authn.User{Name: "u"}, list("pods", "")); err == nil {
		t.Error("decided without an index")
	}
	away(false)
	if decision, _, err := w.Authorize(t.Context(), authn.User{Name: "u"}, list("pods", "")); decision != authz.Allow || err != nil {
		t.Error(decision, err)
	}
	away(true)
	if decision, _, err := w.Authorize(t.Context(), authn.User{Name: "u"}, list("pods", "a")); decision != authz.Allow || err != nil {
		t.Error("the index was dropped while the caches cannot be read:", decision, err)
	}
	if _, _, err := w.Authorize(t.Context(), authn.User{Name: "v"}, list("pods", "a")); err == nil {
		t.Error("refused by the index of a namespace that was never read")
	}
}

func TestRules(t *testing.T) {
	w := newWorld()
	w.clusterRoles.add(clusterRole("c", rule([]string{"list"}, []string{""}, []string{"pods"}, "x"),
		rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/healthz"}}))
	w.clusterBindings.add(clusterBinding("crb", "c", userNamed("u"), groupNamed("g")))
	w.bindings.add(binding("a", "rb", refer("Role", "gone"), userNamed("u")))
	resources, paths, incomplete, err := w.Rules(t.Context(), authn.User{Name: "u", Groups: []string{"g"}}, "a")
	if fmt.Sprint(resources) != "[{[list] [] [pods] [x]}]" || fmt.Sprint(paths) != "[{[get] [/healthz]}]" || incomplete ||
		err == nil || err.Error() != `role.rbac.authorization.k8s.io "gone" not found` {
		t.Errorf("got resource rules %v\npath rules %v\nincomplete %v, %v", resources, paths, incomplete, err)
	}
}

// BenchmarkAuthorize measures a request of a user with few bindings among 1,000 others.
func BenchmarkAuthorize(b *testing.B) {
	w := newWorld()
	for i := range 1000 {
		name := fmt.Sprintf("user-%d", i)
		w.clusterRoles.add(clusterRole(name, rule([]string{"get", "list"}, []string{"apps"}, []string{"deployments", "replicasets"})))
		w.clusterBindings.add(clusterBinding(name, name, userNamed(name), groupNamed("everybody-"+name)))
		w.bindings.add(binding(fmt.Sprintf("ns-%d", i%10), name, refer("ClusterRole", name), userNamed(name)))
	}
	user := authn.User{Name: "user-500", Groups: []string{"system:authenticated", "a", "b"}}
	for _, c := range []struct {
		name string
		a    authz.Attributes
	}{
		{"allowed", authz.Attributes{Verb: "list", Group: "apps", Resource: "replicasets", Namespace: "ns-0"}},
		{"refused", authz.Attributes{Verb: "update", Group: "apps", Resource: "replicasets", Subresource: "scale", Namespace: "ns-0"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := w.Authorize(b.Context(), user, c.a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
