package bus_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// newAccount creates a service account in the namespace default, and returns the configuration with
// which its pods connect.
func newAccount(t *testing.T, s *harness.Server, name string) bus.Config {
	t.Helper()
	accounts := harness.Typed(t, s.Admin()).CoreV1().ServiceAccounts("default")
	if _, err := accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	token, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return bus.Config{Name: name, Token: token.Status.Token}
}

// grant lets a service account of the namespace default read its configmaps.
func grant(t *testing.T, s *harness.Server, name string) {
	t.Helper()
	roles := harness.Typed(t, s.Admin()).RbacV1()
	if _, err := roles.Roles("default").Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list", "watch"}},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := roles.RoleBindings("default").Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// TestHostileClients is scenario 32: whatever an identity has no right to read, forge or inject is
// refused, and nothing of it is delivered or stored.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	s := harness.New(t, etcd.Endpoints())
	s.Start()
	ctx := t.Context()
	trusted := s.Trusted()
	victim := s.OnBus("system:kube-controller-manager")
	identities := map[string]bus.Config{
		"an account without rights": newAccount(t, s, "nobody"),
		"node n1":                   client.BusConfig(s.Service("system:node:n1"), bus.Config{Name: "n1"}),
		"the scheduler":             client.BusConfig(s.Service("system:kube-scheduler"), bus.Config{Name: "scheduler"}),
		"the controllers":           client.BusConfig(s.Service("system:kube-controller-manager"), bus.Config{Name: "controllers"}),
	}
	// evil is the data of all messages from hostile clients.
	const evil = "forged"
	var mu sync.Mutex
	heard := map[string][]string{}
	if _, err := trusted.Subscribe(ctx, ">", func(m bus.Message) {
		mu.Lock()
		defer mu.Unlock()
		heard[m.Subject] = append(heard[m.Subject], string(m.Data))
	}); err != nil {
		t.Fatal(err)
	}
	if err := trusted.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	// The subject where the publisher reports that it is alive: no client may respond in its place,
	// or ask it.
	leader := ""
	harness.Eventually(t, "a publisher is elected", func() bool {
		for _, candidate := range etcd.Values(t, "/garboard/election/registry/publisher/") {
			leader = subject.Lead("publisher", candidate)
		}
		return leader != ""
	})
	victims := victim.NewInbox()
	injected := []string{
		subject.Watch("", "pods", "n1", "evil", "x"), subject.Progress("evil.io", "pods"), victims,
		"$JS.API.STREAM.PURGE.GARBOARD_WATCH", "$JS.API.STREAM.INFO.GARBOARD_WATCH", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO", "$SYS.REQ.USER.AUTH",
		"_R_.evil", "elsewhere",
	}
	for name, cfg := range identities {
		t.Run(name, func(t *testing.T) {
			conn := s.Bus.ConnectAs(cfg)
			self := conn.Client()
			other := victim.Client()
			publish := append(slices.Clone(injected),
				other.Ask("", "secrets"), other.API(), subject.Who(other.Inbox), subject.NodeAPI("n2"),
				leader, subject.Lead("publisher", "x"),
				subject.Client{Inbox: self.Inbox, Identity: subject.NoIdentity}.Ask("", "secrets"),
				subject.Client{Inbox: self.Inbox, Identity: other.Identity + "x"}.Ask("", "secrets"),
				subject.Client{Inbox: other.Inbox, Identity: self.Identity}.Ask("", "secrets"),
			)
			if name != "node n1" {
				publish = append(publish, subject.NodeAPI("n1"))
			}
			for _, subject := range publish {
				if err := conn.Publish(ctx, subject, []byte(evil)); err != nil {
					t.Fatal(err)
				}
			}
			// Send asks that the client may send, with the answer going elsewhere.
			ask, err := proto.Marshal(&watchv1.Ask{Resource: "services"})
			if err != nil {
				t.Fatal(err)
			}
			for _, reply := range injected {
				if err := conn.PublishRequest(ctx, self.Ask("", "services"), reply, ask); err != nil {
					t.Fatal(err)
				}
				if err := conn.PublishRequest(ctx, self.API(), reply, ask); err != nil {
					t.Fatal(err)
				}
				if err := conn.PublishRequest(ctx, subject.Who(self.Inbox), reply, nil); err != nil {
					t.Fatal(err)
				}
			}
			subjects := []string{
				">", "gb.>", "gb.ask.>", "gb.api.>", "gb.who.*", "_INBOX.>", "_INBOX.*.>",
				victims, "_INBOX." + other.Inbox + ".>", "$SYS.>", "$JS.>", "$JS.API.>", "$JS.EVENT.>", "$SYS.REQ.USER.AUTH", "_R_.>",
				"gb.node.*.logs", subject.NodeAPI("n2"), "gb.lead.>", "gb.lead.*.*", "gb.lead.publisher.*", leader,
			}
			if name != "the controllers" { // These may read everything.
				subjects = append(subjects, "gb.watch.>", "gb.watch.*.*.*.*.*", "gb.watch.core.>", subject.Resource("", "secrets"), subject.View("", "secrets", "", "default", ""))
				if outcome, why := harness.Asked(t, conn, &watchv1.Ask{Resource: "secrets"}); outcome != watchv1.Outcome_OUTCOME_FORBIDDEN {
					t.Errorf("asking for secrets: got %v %s", outcome, why)
				}
			}
			if name == "node n1" || name == "an account without rights" {
				subjects = append(subjects, subject.Resource("", "pods"), subject.View("", "pods", "n2", "", ""),
					subject.View("", "pods", scheme.Unscoped, "", ""), subject.View("", "nodes", "", "", "n2"), subject.Resource("", "configmaps"))
				for _, ask := range []*watchv1.Ask{{Resource: "pods"}, {Resource: "pods", Scope: "n2"}, {Resource: "pods", Scope: scheme.Unscoped}, {Resource: "pods", Namespace: "default", Name: "p2"}} {
					if outcome, why := harness.Asked(t, conn, ask); outcome != watchv1.Outcome_OUTCOME_FORBIDDEN {
						t.Errorf("asking for %v: got %v %s", ask, outcome, why)
					}
				}
			}
			for _, subject := range subjects {
				if !harness.Denied(t, conn, subject) {
					t.Errorf("the client may subscribe to %s", subject)
				}
			}
			if name == "node n1" {
				for _, subject := range []string{subject.View("", "pods", "n1", "", ""), subject.View("", "nodes", "", "", "n1"), subject.Progress("", "pods"), subject.NodeAPI("n1")} {
					if harness.Denied(t, conn, subject) {
						t.Errorf("the client may not subscribe to its own %s", subject)
					}
				}
				if outcome, why := harness.Asked(t, conn, &watchv1.Ask{Resource: "pods", Scope: "n1"}); outcome != watchv1.Outcome_OUTCOME_WHOLE {
					t.Errorf("asking for its own pods: got %v %s", outcome, why)
				}
			}
			if err := conn.Flush(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
	t.Run("anonymous", func(t *testing.T) {
		for what, cfg := range map[string]bus.Config{"nothing": {}, "a made up token": {Token: "system:masters"}, "a name": {User: "system:masters", Password: "x"}} {
			cfg.URLs = s.Bus.Config().URLs
			short, cancel := context.WithTimeout(ctx, time.Second)
			if conn, err := bus.Connect(short, cfg); err == nil {
				conn.Close()
				t.Errorf("%s is admitted", what)
			}
			cancel()
		}
	})
	// Once a later answer has come, the earlier ones would have come too.
	if outcome, why := harness.Asked(t, victim, &watchv1.Ask{Resource: "services", Fresh: true}); outcome != watchv1.Outcome_OUTCOME_WHOLE {
		t.Errorf("the controllers ask: got %v %s", outcome, why)
	}
	if err := trusted.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for subject, said := range heard {
		for _, data := range said {
			// NATS and the apiservers use these subjects themselves.
			proper := subject == "$SYS.REQ.USER.AUTH" && strings.HasPrefix(data, "eyJ") || strings.HasPrefix(subject, "$JS.API.STREAM.INFO.") && data == ""
			if slices.Contains(injected, subject) && !proper || data == evil {
				t.Errorf("the subject %s received %q", subject, data)
			}
		}
	}
	log, err := trusted.OpenLog(ctx, bus.LogConfig{Stream: "GARBOARD_WATCH", Subjects: []string{subject.AllWatch()}, MaxAge: 24 * time.Hour, MaxBytes: 256 << 20, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range injected[:2] {
		if m, err := log.Last(ctx, subject); !errors.Is(err, bus.ErrNone) {
			t.Errorf("the log stores for %s %q, %v", subject, m.Data, err)
		}
	}
}

// TestWithdrawnRight is scenario 33: a client that loses a right is refused at its next ask, and
// its subscription ends with its connection's lifetime.
func TestWithdrawnRight(t *testing.T) {
	t.Parallel()
	s := harness.StartWith(t, func(cfg *apiserver.Config) { cfg.Bus.Life = 4 * time.Second })
	ctx := t.Context()
	admin := harness.Typed(t, s.Admin())
	cfg := newAccount(t, s, "reader")
	grant(t, s, "reader")
	conn := s.Bus.ConnectAs(cfg)
	ask := &watchv1.Ask{Resource: "configmaps", Namespace: "default"}
	harness.Eventually(t, "the right is in force", func() bool {
		outcome, _ := harness.Asked(t, conn, ask)
		return outcome == watchv1.Outcome_OUTCOME_WHOLE
	})
	// An ask may be lost with the connection, which ends every few seconds.
	answered := func(ask *watchv1.Ask) (outcome watchv1.Outcome) {
		t.Helper()
		harness.Eventually(t, "an ask is answered", func() bool {
			outcome, _ = harness.Asked(t, conn, ask)
			return outcome != watchv1.Outcome_OUTCOME_UNSPECIFIED
		})
		return outcome
	}
	if outcome := answered(&watchv1.Ask{Resource: "configmaps"}); outcome != watchv1.Outcome_OUTCOME_FORBIDDEN {
		t.Errorf("asking for all namespaces: got %v", outcome)
	}
	var mu sync.Mutex
	heard := map[string]bool{}
	var refused bool
	if _, err := conn.Subscribe(ctx, subject.View("", "configmaps", "", "default", ""), func(m bus.Message) {
		mu.Lock()
		defer mu.Unlock()
		heard[m.Subject[strings.LastIndexByte(m.Subject, '.')+1:]] = true
	}, bus.OnLoss(func(err error) {
		mu.Lock()
		defer mu.Unlock()
		refused = errors.Is(err, bus.ErrDenied)
	})); err != nil {
		t.Fatal(err)
	}
	say := func(name string) {
		t.Helper()
		if _, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	did := func(what func() bool) bool {
		mu.Lock()
		defer mu.Unlock()
		return what()
	}
	// The first connection may have been admitted before the binding was known.
	n := 0
	harness.Eventually(t, "the client receives what it may read", func() bool {
		n++
		say(fmt.Sprintf("before-%d", n))
		return did(func() bool { return len(heard) > 0 })
	})
	did(func() bool { refused = false; return true })
	if err := admin.RbacV1().RoleBindings("default").Delete(ctx, "reader", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the next ask is refused", func() bool {
		outcome, why := harness.Asked(t, conn, ask)
		return outcome == watchv1.Outcome_OUTCOME_FORBIDDEN &&
			strings.Contains(why, `User "system:serviceaccount:default:reader" cannot list resource "configmaps" in API group "" in the namespace "default"`)
	})
	harness.Eventually(t, "the subscription ends", func() bool { return did(func() bool { return refused }) })
	say("after")
	witness := s.Trusted()
	if err := witness.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	if outcome := answered(ask); outcome != watchv1.Outcome_OUTCOME_FORBIDDEN || did(func() bool { return heard["after"] }) {
		t.Errorf("after the right ended: got %v, received %v", outcome, heard)
	}
}

// TestLivesOfConnections: the connection of a node's agent and those of other clients each end at their own time.
func TestLivesOfConnections(t *testing.T) {
	t.Parallel()
	s := harness.StartWith(t, func(cfg *apiserver.Config) { cfg.Bus.NodeLife = 2 * time.Second })
	var agents, others atomic.Int32
	s.OnBus("system:kube-scheduler").OnReconnect(func() { others.Add(1) })
	s.OnBus("system:node:n1").OnReconnect(func() { agents.Add(1) })
	harness.Eventually(t, "the agent has reconnected twice", func() bool { return agents.Load() >= 2 })
	if n := others.Load(); n > 0 {
		t.Errorf("another client has reconnected %d times", n)
	}
}

// TestRenewalUnderWrites: informers whose connections end every two seconds, and whose apiserver
// restarts once, finally hold everything that was written, and have notified their handlers of
// every object.
func TestRenewalUnderWrites(t *testing.T) {
	t.Parallel()
	s := harness.StartWith(t, func(cfg *apiserver.Config) { cfg.Bus.Life = 2 * time.Second })
	config := s.Service("system:kube-controller-manager")
	api, err := client.New(config, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	conn := s.OnBus("system:kube-controller-manager")
	var ends sync.Mutex
	renewals := 0
	conn.OnReconnect(func() {
		ends.Lock()
		defer ends.Unlock()
		renewals++
	})
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: fabricsource.New(fabricsource.Config{Conn: conn, Table: api.Table(), Client: api}), Table: api.Table(), Service: "test",
	})
	maps := informer.For[*corev1.ConfigMap](factory)
	var mu sync.Mutex
	added := map[string]int{}
	if _, err := maps.AddEventHandler(informer.ResourceEventHandlerFuncs[*corev1.ConfigMap]{AddFunc: func(obj *corev1.ConfigMap, _ bool) {
		mu.Lock()
		defer mu.Unlock()
		added[obj.Name]++
	}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	following := make(chan error, 1)
	go func() { following <- factory.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-following; err != nil {
			t.Error(err)
		}
	}()
	write := func(from, to int) {
		t.Helper()
		clients := harness.Typed(t, s.Admin())
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := from; i < to; i++ {
			_, err := clients.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m-%d", i)}}, metav1.CreateOptions{})
			if err != nil && !apierrors.IsAlreadyExists(err) {
				t.Fatal(err)
			}
			<-tick.C
		}
	}
	all := func(n int) func() bool {
		return func() bool {
			mu.Lock()
			defer mu.Unlock()
			for i := range n {
				if added[fmt.Sprintf("m-%d", i)] != 1 {
					return false
				}
			}
			return true
		}
	}
	const some = 300
	write(0, some)
	harness.Eventually(t, "the handlers are notified of all objects", all(some))
	harness.Eventually(t, "the connection was renewed twice", func() bool {
		ends.Lock()
		defer ends.Unlock()
		return renewals >= 2
	})
	// While no apiserver runs, no client is admitted.
	s.Stop()
	harness.Eventually(t, "the connection has ended", func() bool { return !conn.Connected() })
	s.Start()
	write(some, some+50)
	harness.Eventually(t, "the handlers are notified of all objects after the restart", all(some+50))
	harness.Eventually(t, "the connection is back", conn.Connected)
}

// TestRightGivenLater: a client gets a right after it has connected. It follows the view over HTTP,
// since its subscription is refused, until it reconnects; then it follows over the bus.
func TestRightGivenLater(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := harness.Typed(t, s.Admin())
	cfg := newAccount(t, s, "late")
	conn := s.Bus.ConnectAs(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	grant(t, s, "late")
	ask := &watchv1.Ask{Resource: "configmaps", Namespace: "default"}
	harness.Eventually(t, "the right is in force", func() bool {
		outcome, _ := harness.Asked(t, conn, ask)
		return outcome == watchv1.Outcome_OUTCOME_WHOLE
	})
	api := s.Service("system:kube-scheduler") // for its certificate authorities
	api.BearerToken = cfg.Token
	http, err := client.New(api, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	var log synced
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: fabricsource.New(fabricsource.Config{Conn: conn, Table: http.Table(), Client: http, Logger: slog.New(slog.NewTextHandler(&log, nil))}),
		Table:  http.Table(), Service: "test",
	})
	maps := informer.ForView[*corev1.ConfigMap](factory, informer.View{Namespace: "default"})
	following := make(chan error, 1)
	go func() { following <- factory.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-following; err != nil {
			t.Error(err)
		}
	}()
	say := func(name string) {
		t.Helper()
		if _, err := admin.CoreV1().ConfigMaps("default").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		harness.Eventually(t, name+" arrives", func() bool {
			_, ok := maps.Indexer().GetByKey("default/" + name)
			return ok
		})
	}
	say("early")
	harness.Eventually(t, "HTTP has taken over", func() bool { return log.has("following over HTTP until the bus answers") })
	say("meanwhile")
	s.Bus.Stop()
	s.Bus.Start()
	harness.Eventually(t, "the client returns to the bus", func() bool { return log.has("the bus answers again; leaving HTTP") })
	say("later")
}

// synced is a log that can be read while it is written.
type synced struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *synced) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *synced) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Contains(s.text.String(), text)
}
