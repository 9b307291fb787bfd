package bus_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// laterKind returns what a client must know of a kind that its CustomResourceDefinition brings.
func laterKind(plural string) *scheme.Kind {
	gvk := schema.GroupVersionKind{Group: "later.example.com", Version: "v1", Kind: strings.ToUpper(plural[:1]) + plural[1:]}
	return &scheme.Kind{
		GroupVersionKind: gvk, Storage: gvk, Custom: true, Resource: plural, Singular: plural, Namespaced: true,
		StoragePrefix: gvk.Group + "/" + plural,
	}
}

// define creates the CustomResourceDefinition of a later kind.
func define(t *testing.T, s *harness.Server, plural string) {
	t.Helper()
	kind := laterKind(plural)
	body := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%s.%s"},"spec":{
		"group":"%s","scope":"Namespaced","names":{"plural":"%s","singular":"%s","kind":"%s"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`,
		plural, kind.Group, kind.Group, plural, plural, kind.Kind)
	res, answer := s.Exchange(s.Admin(), "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body, map[string]string{"Content-Type": "application/json"})
	if res.StatusCode != 201 {
		t.Fatalf("creating the definition of %s: %d %s", plural, res.StatusCode, answer)
	}
}

// established waits until the kinds are served.
func established(t *testing.T, s *harness.Server, plurals ...string) {
	t.Helper()
	for _, plural := range plurals {
		harness.Await(t, plural+" to be served", func() error {
			path := "/apis/later.example.com/v1/" + plural
			if res, answer := s.Exchange(s.Admin(), "GET", path, "", nil); res.StatusCode != 200 {
				return fmt.Errorf("%d %s", res.StatusCode, answer)
			}
			return nil
		})
	}
}

// grantRules gives an account of the namespace default rules: in all namespaces, or in one.
func grantRules(t *testing.T, s *harness.Server, account, namespace string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx, roles := t.Context(), harness.Typed(t, s.Admin()).RbacV1()
	meta := metav1.ObjectMeta{Name: account + "-later"}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: account}}
	var err error
	if namespace == "" {
		if _, err = roles.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err == nil {
			_, err = roles.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
				ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: meta.Name}, Subjects: subjects,
			}, metav1.CreateOptions{})
		}
	} else if _, err = roles.Roles(namespace).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{}); err == nil {
		_, err = roles.RoleBindings(namespace).Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name}, Subjects: subjects,
		}, metav1.CreateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func reads(groups, resources string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{groups}, Resources: strings.Fields(resources), Verbs: []string{"get", "list", "watch"}}
}

// later is a program that follows later kinds with informers over one connection.
type later struct {
	t       *testing.T
	conn    *bus.Conn
	metrics *prometheus.Registry
	factory *informer.Factory
	config  *rest.Config

	mu     sync.Mutex
	events map[string][]string // by resource
	// initial counts the first of them, which came with the first whole view, in any order.
	initial map[string]int
}

// followLater starts a program as a user, which follows views of later kinds.
func followLater(t *testing.T, s *harness.Server, config *rest.Config, view informer.View, plurals ...string) *later {
	t.Helper()
	table := scheme.New()
	f := &later{t: t, metrics: prometheus.NewRegistry(), config: config, events: map[string][]string{}, initial: map[string]int{}}
	f.conn = s.Bus.ConnectAs(client.BusConfig(config, bus.Config{Name: t.Name(), Registerer: f.metrics}))
	calls, err := client.New(config, table)
	if err != nil {
		t.Fatal(err)
	}
	f.factory = informer.NewFactory(informer.FactoryConfig{
		Table: table, Source: fabricsource.New(fabricsource.Config{Conn: f.conn, Table: table, Client: calls, Registerer: f.metrics}),
	})
	for _, plural := range plurals {
		kind := laterKind(plural)
		if err := table.Install(kind); err != nil {
			t.Fatal(err)
		}
		note := func(verb, name string) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.events[plural] = append(f.events[plural], verb+" "+name)
		}
		if _, err := informer.ForKind[*unstructured.Unstructured](f.factory, kind, view).AddEventHandler(
			informer.ResourceEventHandlerFuncs[*unstructured.Unstructured]{
				AddFunc: func(obj *unstructured.Unstructured, initial bool) {
					if note("add", obj.GetName()); initial {
						f.mu.Lock()
						defer f.mu.Unlock()
						f.initial[plural]++
					}
				},
				UpdateFunc: func(_, obj *unstructured.Unstructured) { note("update", obj.GetName()) },
				DeleteFunc: func(gone informer.DeletedObject[*unstructured.Unstructured]) {
					_, name := gone.GetObjectName()
					note("delete", name)
				},
			}); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- f.factory.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return f
}

// carried waits until all views are read and carried by via, for the reason why.
func (f *later) carried(via, why string) {
	f.t.Helper()
	began := time.Now()
	harness.Await(f.t, "the views to be carried by "+via, func() error {
		for _, one := range f.factory.Watchers() {
			if one.Via != via || one.Why != why || via == watcher.ViaNATS && !one.Synced {
				return fmt.Errorf("%s is carried by %s (%s), synced %t", one.Resource, one.Via, one.Why, one.Synced)
			}
		}
		return nil
	})
	f.t.Logf("carried by %s %q after %v and %v renewals", via, why, time.Since(began).Round(time.Millisecond), f.renewals())
}

// heard waits until a resource's handlers got exactly these events.
func (f *later) heard(plural string, want ...string) {
	f.t.Helper()
	harness.Await(f.t, "the events of "+plural, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		got, sorted := slices.Clone(f.events[plural]), slices.Clone(want)
		if n := f.initial[plural]; n <= len(got) && n <= len(sorted) {
			slices.Sort(got[:n])
			slices.Sort(sorted[:n])
		}
		if !slices.Equal(got, sorted) {
			return fmt.Errorf("got %q, want %q", f.events[plural], want)
		}
		return nil
	})
}

// overHTTP returns how many views the metrics say that HTTP carries, by the reason.
func (f *later) overHTTP() map[string]float64 { return f.measured("garboard_follow_over_http") }

// renewals returns how often the connection was renewed.
func (f *later) renewals() float64 { return f.measured("garboard_bus_renewals_total")[""] }

// measured returns the values of a metric that are not 0, by their reason.
func (f *later) measured(name string) map[string]float64 {
	f.t.Helper()
	families, err := f.metrics.Gather()
	if err != nil {
		f.t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.GetMetric() {
			why := ""
			for _, label := range one.GetLabel() {
				if label.GetName() == "why" {
					why = label.GetValue()
				}
			}
			if value := one.GetGauge().GetValue() + one.GetCounter().GetValue(); value != 0 {
				values[why] += value
			}
		}
	}
	return values
}

// objects creates and deletes objects of later kinds.
func objects(t *testing.T, s *harness.Server, plural string) (create, remove func(name string)) {
	t.Helper()
	c, err := dynamic.NewForConfig(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	kind := laterKind(plural)
	of := c.Resource(kind.GroupVersionResource()).Namespace("default")
	create = func(name string) {
		t.Helper()
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(kind.GroupVersionKind)
		obj.SetName(name)
		if _, err := of.Create(t.Context(), obj, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return create, func(name string) {
		t.Helper()
		if err := of.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLaterKindsOverTheBus: followers of a kind get its messages over NATS, whether they start before or
// after the kind is installed, if roles grant the kind.
func TestLaterKindsOverTheBus(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	for name, c := range map[string]struct {
		rules     []rbacv1.PolicyRule
		namespace string
		// reconnects is how often the connection may be renewed.
		reconnects float64
	}{
		"everything":          {rules: []rbacv1.PolicyRule{reads("*", "*")}},
		"the group":           {rules: []rbacv1.PolicyRule{reads("later.example.com", "*")}},
		"the kind":            {rules: []rbacv1.PolicyRule{reads("later.example.com", "names afters")}},
		"in one namespace":    {rules: []rbacv1.PolicyRule{reads("later.example.com", "locals afters")}, namespace: "default", reconnects: 1},
		"all in a namespace":  {rules: []rbacv1.PolicyRule{reads("*", "*")}, namespace: "default", reconnects: 1},
		"the kind, any group": {rules: []rbacv1.PolicyRule{reads("*", "anys")}, reconnects: 1},
	} {
		plural := map[string]string{
			"everything": "alls", "the group": "groups", "the kind": "names", "in one namespace": "locals", "all in a namespace": "spaces", "the kind, any group": "anys",
		}[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			account := "a-" + plural
			cfg := newAccount(t, s, account)
			grantRules(t, s, account, c.namespace, c.rules...)
			view := informer.View{Namespace: c.namespace}
			before := followLater(t, s, s.WithToken(cfg.Token), view, plural)
			before.carried(watcher.ViaHTTP, "the resource is not served")
			define(t, s, plural)
			established(t, s, plural)
			create, remove := objects(t, s, plural)
			create("one")
			before.carried(watcher.ViaNATS, "")
			create("two")
			remove("one")
			before.heard(plural, "add one", "add two", "delete one")
			// The account may have been admitted before its role was known.
			if n := before.renewals(); n > c.reconnects+1 {
				t.Errorf("the connection was renewed %v times, want at most %v", n, c.reconnects+1)
			}
			if over := before.overHTTP(); len(over) > 0 {
				t.Errorf("the metrics say that views are carried over HTTP: %v", over)
			}
			after := followLater(t, s, s.WithToken(cfg.Token), view, plural)
			after.carried(watcher.ViaNATS, "")
			after.heard(plural, "add two")
			if n := after.renewals(); n > 0 {
				t.Errorf("a connection that is newer than the kind was renewed %v times", n)
			}
		})
	}
}

// TestNothingIsLostOverARenewal: a program is granted a kind that it already follows in vain. What is
// written until its connection has the right, and meanwhile, arrives exactly once and in order.
func TestNothingIsLostOverARenewal(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	cfg := newAccount(t, s, "renewed")
	define(t, s, "renewals")
	established(t, s, "renewals")
	create, _ := objects(t, s, "renewals")
	create("before")
	f := followLater(t, s, s.WithToken(cfg.Token), informer.View{}, "renewals")
	f.carried(watcher.ViaHTTP, "the user may not read it")
	if over := f.overHTTP(); over["the user may not read it"] != 1 {
		t.Errorf("the metrics say that views are carried over HTTP: %v", over)
	}
	if n := f.renewals(); n > 0 {
		t.Errorf("a connection without the right was renewed %v times", n)
	}
	grantRules(t, s, "renewed", "", reads("later.example.com", "renewals"))
	want := []string{"add before"}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		<-tick.C
		name := fmt.Sprintf("o-%d", i)
		create(name)
		want = append(want, "add "+name)
		if one := f.factory.Watchers()[0]; one.Via == watcher.ViaNATS && one.Synced {
			break
		}
		if i > 10_000 {
			t.Fatalf("the view is not carried by NATS: %+v", f.factory.Watchers())
		}
	}
	create("after")
	f.heard("renewals", append(want, "add after")...)
	if n := f.renewals(); n != 1 {
		t.Errorf("the connection was renewed %v times, want once", n)
	}
	t.Logf("%d objects were created meanwhile", len(want)-1)
}

// TestManyLaterKindsNeedFewRenewals: many kinds that come at once cost a program whose rights come with
// them one or two reconnects, and one that may read everything none.
func TestManyLaterKindsNeedFewRenewals(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	const many = 30
	var plurals []string
	for i := range many {
		plurals = append(plurals, fmt.Sprintf("many%ds", i))
	}
	cfg := newAccount(t, s, "many")
	narrow := followLater(t, s, s.WithToken(cfg.Token), informer.View{Namespace: "default"}, plurals...)
	grantRules(t, s, "many", "default", reads("later.example.com", strings.Join(plurals, " ")))
	wide := followLater(t, s, s.Service("system:kube-controller-manager"), informer.View{}, plurals...)
	var all sync.WaitGroup
	for _, plural := range plurals {
		all.Go(func() { define(t, s, plural) })
	}
	all.Wait()
	wide.carried(watcher.ViaNATS, "")
	narrow.carried(watcher.ViaNATS, "")
	if n := wide.renewals(); n != 0 {
		t.Errorf("the connection that may read everything was renewed %v times", n)
	}
	if n := narrow.renewals(); n == 0 || n > 4 {
		t.Errorf("for %d kinds the connection was renewed %v times", many, n)
	}
}

// TestWithoutTheRightToALaterKind: a program without the right never gets a kind's messages, nor does it
// reconnect for them; and one that loses its right to everything hears nothing more, of later kinds
// either, when its connection ends.
func TestWithoutTheRightToALaterKind(t *testing.T) {
	t.Parallel()
	s := harness.StartWith(t, func(cfg *apiserver.Config) { cfg.Bus.Life = 5 * time.Second })
	nobody := newAccount(t, s, "without")
	grantRules(t, s, "without", "", reads("later.example.com", "others"), reads("", "*"))
	boss := newAccount(t, s, "boss")
	grantRules(t, s, "boss", "", reads("*", "*"))
	conn := s.Bus.ConnectAs(boss)
	var mu sync.Mutex
	heard := map[string]bool{}
	if _, err := conn.Subscribe(t.Context(), subject.Group("later.example.com"), func(m bus.Message) {
		mu.Lock()
		defer mu.Unlock()
		heard[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]] = true
	}); err != nil {
		t.Fatal(err)
	}
	define(t, s, "secrets")
	established(t, s, "secrets")
	poor := s.Bus.ConnectAs(nobody)
	for _, at := range []string{
		subject.Resource("later.example.com", "secrets"), subject.Group("later.example.com"), subject.AllWatch(),
		subject.View("later.example.com", "secrets", "", "default", ""), subject.Progress("later.example.com", "secrets"),
		"gb.watch.*.secrets.>", "gb.watch.later~2eexample~2ecom.*.>", "gb.watch.*.*.~progress",
	} {
		if !harness.Denied(t, poor, at) {
			t.Errorf("a client may subscribe to %s", at)
		}
	}
	if harness.Denied(t, poor, subject.Resource("later.example.com", "others")) {
		t.Error("a client may not subscribe to a kind that its role names")
	}
	create, _ := objects(t, s, "secrets")
	n := 0
	harness.Eventually(t, "the boss hears of the kind", func() bool {
		n++
		create(fmt.Sprintf("before-%d", n))
		mu.Lock()
		defer mu.Unlock()
		return heard[fmt.Sprintf("before-%d", n)] || len(heard) > 1
	})
	if err := harness.Typed(t, s.Admin()).RbacV1().ClusterRoleBindings().Delete(t.Context(), "boss-later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	reconnects := conn.Reconnects()
	harness.Eventually(t, "two of the boss's connections end", func() bool { return conn.Reconnects() >= reconnects+2 })
	define(t, s, "newers")
	established(t, s, "newers")
	for _, plural := range []string{"secrets", "newers"} {
		create, _ := objects(t, s, plural)
		create("after")
		if !harness.Denied(t, conn, subject.Resource("later.example.com", plural)) {
			t.Errorf("the boss may subscribe to %s", plural)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if heard["after"] {
		t.Error("the boss hears of what it may not read any more")
	}
}
