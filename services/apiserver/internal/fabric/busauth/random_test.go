package busauth_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/rbac"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// cache replaces a feed.
type cache struct {
	mu      sync.Mutex
	objects []scheme.Object
	changes int64
}

func (c *cache) CachedSince(view fabric.View, have feed.Version) ([]scheme.Object, feed.Version, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := feed.Version{Start: 1, Head: 1 + c.changes}
	if now == have {
		return nil, have, false
	}
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
	c.changes++
	c.objects = append(c.objects, objects...)
}

// plane is a set of roles and bindings, and an authorizer that uses only them.
type plane struct {
	*rbac.Authorizer
	roles, bindings, clusterRoles, clusterBindings cache
}

func newPlane() *plane {
	p := &plane{}
	p.Authorizer = rbac.New(rbac.Caches{Roles: &p.roles, RoleBindings: &p.bindings, ClusterRoles: &p.clusterRoles, ClusterRoleBindings: &p.clusterBindings})
	return p
}

func (p *plane) role(namespace, name string, rules ...rbacv1.PolicyRule) {
	p.roles.add(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules})
}

func (p *plane) bind(namespace, name, kind, role string, subjects ...rbacv1.Subject) {
	p.bindings.add(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role}, Subjects: subjects,
	})
}

func (p *plane) clusterRole(name string, rules ...rbacv1.PolicyRule) {
	p.clusterRoles.add(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules})
}

func (p *plane) clusterBind(name, role string, subjects ...rbacv1.Subject) {
	p.clusterBindings.add(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects,
	})
}

// tokens authenticates the users u and v by tokens that equal their names.
func tokens(dir string) (*authn.Authenticator, error) {
	path := filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(path, []byte("u,u,uid,\"g,everybody\"\nv,v,uid,\"g,everybody\"\n"), 0o600); err != nil {
		return nil, err
	}
	file, err := authn.NewTokenFile(path, []string{"api"}, slog.New(slog.DiscardHandler))
	return authn.New(authn.Config{Tokens: []authn.Tokens{file}, Audiences: []string{"api"}}), err
}

// decider returns a decider for the plane's roles.
func (p *plane) decider(users *authn.Authenticator, budget int) *busauth.Decider {
	return busauth.New(busauth.Config{
		Authenticator: users, Authorizer: authz.Union{authz.Masters{}, p.Authorizer}, Roles: p.Authorizer, Table: scheme.New(),
		Budget: budget, Logger: slog.New(slog.DiscardHandler),
	})
}

func watched(ctx context.Context, d *busauth.Decider, user string) ([]string, error) {
	grant, err := d.Decide(ctx, callout.Credentials{Inbox: "me", Token: user})
	return slices.DeleteFunc(slices.Clone(grant.Subscribe), func(subject string) bool { return !strings.HasPrefix(subject, "gb.watch.") }), err
}

// matches reports whether NATS delivers a message at a subject to the subscriber of a pattern.
func matches(pattern, subject string) bool {
	want, got := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		if token == ">" {
			return len(got) > i
		}
		if i >= len(got) || token != "*" && token != got[i] {
			return false
		}
	}
	return len(got) == len(want)
}

func anyOf(t *rapid.T, label string, values ...string) []string {
	return rapid.SliceOfNDistinct(rapid.SampledFrom(values), 0, min(3, len(values)), rapid.ID[string]).Draw(t, label)
}

// awkward are unusual names that RBAC accepts.
var awkward = []string{"x", "y", "x.y", "*", ">", "~", "~progress", "~2a", "", "core", "ü"}

func anyRules(t *rapid.T) []rbacv1.PolicyRule {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) rbacv1.PolicyRule {
		rule := rbacv1.PolicyRule{
			Verbs: anyOf(t, "verbs", "list", "watch", "get", "*"), APIGroups: anyOf(t, "groups", "", "apps", "example.com", "*"),
			Resources: anyOf(t, "resources", "pods", "secrets", "nodes", "deployments", "widgets", "*", "pods/log", "*/status"),
		}
		if rapid.Bool().Draw(t, "simple") { // so that several rules cover the same objects
			rule.Verbs, rule.APIGroups = []string{rapid.SampledFrom([]string{"list", "watch"}).Draw(t, "verb")}, []string{"*"}
			rule.Resources = []string{rapid.SampledFrom([]string{"pods", "nodes"}).Draw(t, "resource")}
		}
		if rapid.Bool().Draw(t, "named") {
			rule.ResourceNames = anyOf(t, "names", awkward...)
		}
		return rule
	}), 0, 4).Draw(t, "rules")
}

func anySubjects(t *rapid.T) []rbacv1.Subject {
	return rapid.SliceOfN(rapid.SampledFrom([]rbacv1.Subject{
		{Kind: "User", Name: "u"}, {Kind: "User", Name: "v"}, {Kind: "Group", Name: "everybody"}, {Kind: "ServiceAccount", Name: "u"},
	}), 0, 2).Draw(t, "subjects")
}

// TestRightsAreThoseOfRoles draws random roles and bindings. No user may be granted a subject that
// carries watch messages of an object that RBAC does not let it list and watch. A user within the
// bounds may subscribe to every view that RBAC allows.
func TestRightsAreThoseOfRoles(t *testing.T) {
	users, err := tokens(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	spaces := []string{"n", "a.b", "*", ">"}
	rapid.Check(t, func(t *rapid.T) {
		p := newPlane()
		for _, name := range []string{"c1", "c2"} {
			p.clusterRole(name, anyRules(t)...)
			if rapid.Bool().Draw(t, "bound everywhere") {
				p.clusterBind(name, name, anySubjects(t)...)
			}
		}
		for _, namespace := range spaces {
			p.role(namespace, "r", anyRules(t)...)
			for i := range rapid.IntRange(0, 3).Draw(t, "bindings") {
				kind, name := "Role", "r"
				if rapid.Bool().Draw(t, "of a cluster role") {
					kind, name = "ClusterRole", rapid.SampledFrom([]string{"c1", "c2", "gone"}).Draw(t, "role")
				}
				p.bind(namespace, fmt.Sprint(i), kind, name, anySubjects(t)...)
			}
		}
		budget := rapid.SampledFrom([]int{1, 3, 8, 0, -1}).Draw(t, "budget")
		metrics := prometheus.NewRegistry()
		d := busauth.New(busauth.Config{
			Authenticator: users, Authorizer: authz.Union{authz.Masters{}, p.Authorizer}, Roles: p.Authorizer, Table: scheme.New(),
			Budget: budget, Logger: slog.New(slog.DiscardHandler), Registerer: metrics,
		})
		less := map[string]bool{}
		for _, name := range []string{"u", "v", "u"} { // the last one is already cached
			before := narrowed(t, metrics)
			subjects, err := watched(t.Context(), d, name)
			if err != nil {
				t.Fatal(err)
			}
			less[name] = less[name] || narrowed(t, metrics) > before
			checkRights(t, p, authn.User{Name: name, Groups: []string{"g", "everybody", authn.GroupAuthenticated}}, spaces, subjects, !less[name])
		}
	})
}

// narrowed returns how often a user was granted less than it is allowed, according to the metrics.
func narrowed(t *rapid.T, metrics prometheus.Gatherer) (times float64) {
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, one := range family.GetMetric() {
			times += one.GetCounter().GetValue()
		}
	}
	return times
}

func checkRights(t *rapid.T, p *plane, user authn.User, spaces, subjects []string, all bool) {
	may := func(kind *scheme.Kind, namespace, name string) bool {
		for _, verb := range []string{"list", "watch"} {
			decision, _, err := p.Authorize(t.Context(), user, authz.Attributes{
				Verb: verb, Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Namespace: namespace, Name: name,
			})
			if decision != authz.Allow || err != nil {
				return false
			}
		}
		return true
	}
	given := func(subject string) bool {
		return slices.ContainsFunc(subjects, func(pattern string) bool { return matches(pattern, subject) })
	}
	granted, err := p.Namespaces(user)
	if err != nil {
		t.Fatal(err)
	}
	// Two kinds that are not installed, and one in a group that no rule names.
	kinds := scheme.New().Kinds()
	for _, group := range []string{"example.com", "apps", "example.org"} {
		later := schema.GroupVersionKind{Group: group, Version: "v1", Kind: "Widget"}
		kinds = append(kinds, &scheme.Kind{GroupVersionKind: later, Storage: later, Resource: "widgets", Namespaced: group != "apps", Unserved: true})
	}
	for _, kind := range kinds {
		if !kind.Stored() || !slices.Contains([]string{"pods", "secrets", "nodes", "deployments", "leases", "widgets"}, kind.Resource) {
			continue
		}
		if kind.Unserved && given(subject.Progress(kind.Group, kind.Resource)) && !may(kind, "", "") {
			t.Fatalf("%s may hear that %s change: %q", user.Name, kind.GroupResource(), subjects)
		}
		in := []string{""}
		if kind.Namespaced {
			in = append(slices.Clone(spaces), "elsewhere")
		}
		for _, namespace := range in {
			for _, name := range append(slices.Clone(awkward), "other") {
				if name == "" {
					continue
				}
				whole := may(kind, "", "") || may(kind, namespace, "")
				single := may(kind, namespace, name)
				for _, scope := range []string{"", "n1", "*"} {
					got := given(subject.Watch(kind.Group, kind.Resource, scope, namespace, name))
					if kind.Unserved && !got {
						continue // The connection is renewed when the kind comes.
					}
					if got && !whole && !single {
						t.Fatalf("%s may hear of %s %q/%q, which it may not read: %q", user.Name, kind.Resource, namespace, name, subjects)
					}
					reachable := !kind.Namespaced || slices.Contains(granted, namespace) || may(kind, "", "")
					// A rule for the name "" allows a list of all objects, and no single name.
					if all && !got && reachable && (whole || single && name != "other") {
						t.Fatalf("%s may not hear of %s %q/%q, which it may read: %q", user.Name, kind.Resource, namespace, name, subjects)
					}
				}
			}
		}
	}
}

// hostile binds a role whose rules allow nothing on the bus to everybody, any number of times.
func (p *plane) hostile(namespace string, rules, bindings int) {
	var all []rbacv1.PolicyRule
	for i := range rules {
		all = append(all, rule("get", fmt.Sprintf("pods/x%d", i%10)))
	}
	p.role(namespace, "much", all...)
	for i := range bindings {
		p.bind(namespace, fmt.Sprint("b", i), "Role", "much", rbacv1.Subject{Kind: "Group", Name: "everybody"})
	}
}

// honest grants u some rights.
func (p *plane) honest() {
	p.clusterRole("reader", rule("list,watch", "configmaps"))
	p.clusterRole("services", rule("get,list,watch", "services"))
	p.clusterBind("services", "services", rbacv1.Subject{Kind: "User", Name: "u"})
	for i := range 20 {
		p.bind(fmt.Sprintf("team-%02d", i), "reader", "ClusterRole", "reader", rbacv1.Subject{Kind: "User", Name: "u"})
	}
}

// TestAHostileNamespaceDelaysNoUser: the owner of a namespace binds a role with very many rules to
// everybody, a hundred times. Every user must be let in as fast as before, with the same rights.
func TestAHostileNamespaceDelaysNoUser(t *testing.T) {
	users, err := tokens(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	quiet, attacked := newPlane(), newPlane()
	quiet.honest()
	attacked.honest()
	attacked.hostile("a-hostile", 80_000, 100)
	attacked.bind("a-hostile", "z", "ClusterRole", "reader", rbacv1.Subject{Kind: "User", Name: "v"})
	want, err := watched(t.Context(), quiet.decider(users, 0), "u")
	if err != nil || len(want) != 22 {
		t.Fatalf("%q, %v", want, err)
	}
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			got, err := watched(t.Context(), attacked.decider(users, 0), "u")
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%q, %v; want %q", got, err, want)
				b.Fail()
			}
		}
	})
	// A copy of the rules would take a gigabyte.
	if bytes := allocated.AllocedBytesPerOp(); bytes > 4<<20 {
		t.Errorf("a connect costs %d MB", bytes>>20)
	}
	visited := 0
	bounded := attacked.decider(users, 0)
	counting := busauth.New(busauth.Config{
		Authenticator: users, Authorizer: authz.Union{attacked.Authorizer}, Table: scheme.New(), Logger: slog.New(slog.DiscardHandler),
		Roles: glancing{attacked.Authorizer, &visited},
	})
	for _, d := range []*busauth.Decider{bounded, counting} {
		if _, err := watched(t.Context(), d, "v"); err != nil {
			t.Error(err)
		}
	}
	if visited > 200 {
		t.Errorf("%d roles were visited", visited)
	}
}

// glancing counts the visited roles.
type glancing struct {
	*rbac.Authorizer
	visited *int
}

func (g glancing) Granted(user authn.User, namespace string, see func([]rbacv1.PolicyRule) bool) error {
	return g.Authorizer.Granted(user, namespace, func(rules []rbacv1.PolicyRule) bool {
		*g.visited++
		return see(rules)
	})
}

// TestTimeIsUp checks that a slow search grants what it has found, with the rights that apply
// everywhere first.
func TestTimeIsUp(t *testing.T) {
	users, err := tokens(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := newPlane()
	p.honest()
	p.hostile("a-hostile", 1000, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slow := busauth.New(busauth.Config{
		Authenticator: users, Authorizer: p.Authorizer, Table: scheme.New(), Logger: slog.New(slog.DiscardHandler), Roles: stuck{p.Authorizer, cancel},
	})
	got, err := watched(ctx, slow, "u")
	if err != nil || !slices.Equal(got, []string{"gb.watch.core.services.>"}) {
		t.Errorf("%q, %v", got, err)
	}
	// A result that was cut short is not reused the next time.
	if got, err := watched(t.Context(), slow, "u"); err != nil || len(got) != 22 {
		t.Errorf("the next time %d subjects: %q, %v", len(got), got, err)
	}
}

// stuck is slow with one namespace, so that the time runs out.
type stuck struct {
	*rbac.Authorizer
	over func()
}

func (s stuck) Granted(user authn.User, namespace string, see func([]rbacv1.PolicyRule) bool) error {
	if namespace == "a-hostile" {
		s.over()
	}
	return s.Authorizer.Granted(user, namespace, see)
}

// TestAnswersAreKept checks that a result is reused exactly until a role or a binding changes.
func TestAnswersAreKept(t *testing.T) {
	users, err := tokens(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	p := newPlane()
	p.honest()
	visited := 0
	d := busauth.New(busauth.Config{
		Authenticator: users, Authorizer: p.Authorizer, Table: scheme.New(), Logger: slog.New(slog.DiscardHandler), Roles: glancing{p.Authorizer, &visited},
	})
	for i := range 3 {
		got, err := watched(t.Context(), d, "u")
		if err != nil || len(got) != 22 {
			t.Fatalf("%q, %v", got, err)
		}
		if before := visited; i > 0 && visited != before {
			t.Error("the subjects are searched again without a change")
		}
	}
	known := visited
	if got, err := watched(t.Context(), d, "v"); err != nil || len(got) != 0 {
		t.Errorf("another user is granted %q, %v", got, err)
	}
	p.clusterBind("v", "services", rbacv1.Subject{Kind: "User", Name: "v"})
	if got, err := watched(t.Context(), d, "v"); err != nil || !slices.Equal(got, []string{"gb.watch.core.services.>"}) {
		t.Errorf("after a change another user is granted %q, %v", got, err)
	}
	if known > 21 {
		t.Errorf("%d roles were visited for three equal searches", known)
	}
}

// BenchmarkConnect measures a client's connect: with cached subjects, without, and without a bound.
func BenchmarkConnect(b *testing.B) {
	users, err := tokens(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name                    string
		rules, bindings, budget int
		kept                    bool
	}{
		{name: "quiet"}, {name: "quiet, kept", kept: true}, {name: "hostile", rules: 80_000, bindings: 100},
		{name: "hostile, no budget", rules: 80_000, bindings: 100, budget: -1},
	} {
		b.Run(c.name, func(b *testing.B) {
			p := newPlane()
			p.honest()
			p.hostile("a-hostile", c.rules, c.bindings)
			d := p.decider(users, c.budget)
			b.ReportAllocs()
			for b.Loop() {
				if !c.kept {
					d = p.decider(users, c.budget)
				}
				if _, err := watched(b.Context(), d, "u"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
