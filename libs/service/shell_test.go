package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/election"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/lifecycle"
	"github.com/garboard/garboard/libs/report"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/service"
)

var quiet = slog.New(slog.DiscardHandler)

func TestComplete(t *testing.T) {
	var empty service.Config
	if err := empty.Complete(); err == nil || !strings.Contains(err.Error(), "no NATS server address is set") {
		t.Errorf("an empty configuration: %v", err)
	}
	if empty.Logger == nil || empty.Registerer == nil {
		t.Error("there are no defaults")
	}
	if err := empty.Reachable(); err == nil || !strings.Contains(err.Error(), "no apiserver address is set") {
		t.Errorf("without an apiserver: %v", err)
	}
	bad := service.Config{Bus: bus.Config{URLs: []string{"nats://elsewhere:4222"}}, Transport: "pigeon"}
	if err := bad.Complete(); err == nil || !strings.Contains(err.Error(), "--nats-insecure") || !strings.Contains(err.Error(), `"pigeon" is not a transport`) {
		t.Errorf("not all faults are returned: %v", err)
	}
	good := service.Config{API: &rest.Config{Host: "https://127.0.0.1:1"}, Bus: bus.Config{URLs: []string{"nats://127.0.0.1:4222"}}}
	if err := good.Complete(); err != nil || good.Reachable() != nil {
		t.Errorf("a good configuration: %v, %v", err, good.Reachable())
	}
}

// start runs stages until the returned function is called.
func start(t *testing.T, stages ...lifecycle.Stage) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- lifecycle.Run(ctx, quiet, stages...) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// herd counts pods: a service on the plane with no other work.
type herd struct {
	*service.Shell
	pods  informer.SharedInformer[*corev1.Pod]
	leads chan struct{}
}

func newHerd(cfg service.Config) *herd {
	return &herd{
		Shell: service.New(cfg, service.Role{Name: "herd", Component: "herd", Unready: "the herd is asleep"}),
		leads: make(chan struct{}),
	}
}

func (h *herd) stages() []lifecycle.Stage {
	var factory *informer.Factory
	return []lifecycle.Stage{
		h.Connections(),
		{Name: "informers", Start: func(context.Context) error {
			factory = h.NewInformers()
			h.pods = informer.For[*corev1.Pod](factory)
			h.Follow(factory)
			return nil
		}, Run: func(ctx context.Context) error { return factory.Run(ctx) }},
		h.Reports(),
		{Name: "herd", Run: func(ctx context.Context) error {
			return h.Lead(ctx, "herd", election.Timing{}, factory, func(ctx context.Context) error {
				close(h.leads)
				<-ctx.Done()
				return nil
			})
		}},
	}
}

// TestService runs a whole service on an API in memory: it becomes ready, and leads.
func TestService(t *testing.T) {
	api := fake.New(scheme.New(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}})
	cfg := service.Config{API: &rest.Config{Host: "https://127.0.0.1:1"}, Bus: bus.Config{URLs: []string{"nats://127.0.0.1:1"}}, Logger: quiet}
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	h := newHerd(cfg)
	if err := h.Ready(t.Context()); err == nil || err.Error() != "the herd is asleep" || h.Watchers() != nil {
		t.Errorf("before it runs: %v, %v", err, h.Watchers())
	}
	h.Use(api, listwatch.New(api, quiet))
	stop := start(t, h.stages()...)
	select {
	case <-h.leads:
	case <-time.After(time.Minute):
		t.Fatal("it does not lead")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := h.Ready(ctx); err != nil {
		t.Error(err)
	}
	if pods := h.pods.Indexer().List(); len(pods) != 1 {
		t.Errorf("it follows the pods %v", pods)
	}
	if w := h.Watchers(); len(w) != 1 || w[0].Resource != "pods" || w[0].Service != "herd" || !w[0].Synced {
		t.Errorf("it reports the watchers %+v", w)
	}
	stop()
	lease, err := client.Of[*coordinationv1.Lease](api).Get(t.Context(), metav1.NamespaceSystem, "herd", metav1.GetOptions{})
	if err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
		t.Errorf("it ended with the Lease %+v, %v", lease, err)
	}
}

// TestReports checks that a service without an apiserver says so, and reports itself over NATS.
func TestReports(t *testing.T) {
	server := bustest.NewServer(t)
	cfg := service.Config{API: &rest.Config{Host: "https://127.0.0.1:1"}, Bus: server.Config(), Identity: "one", Version: "v1", Logger: quiet}
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	h := newHerd(cfg)
	defer start(t, h.stages()...)()
	conn := server.Connect()
	for deadline := time.Now().Add(time.Minute); ; {
		answers, err := report.Ask(t.Context(), conn, 500*time.Millisecond, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		if len(answers) == 1 && strings.Contains(answers[0].NotReady, "informer of pods has no whole view yet\nthe API at 127.0.0.1:1 does not answer") {
			if a := answers[0]; a.Service != "herd" || a.Replica != "one" || a.Version != "v1" || len(a.Watchers) != 1 {
				t.Errorf("got %+v", a)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got the answers %+v", answers)
		}
	}
}

// TestExplain checks that a service can explain better than the client why the API is silent.
func TestExplain(t *testing.T) {
	server := bustest.NewServer(t)
	cfg := service.Config{Bus: server.Config(), Logger: quiet}
	if err := cfg.Complete(); err != nil {
		t.Fatal(err)
	}
	h := &herd{Shell: service.New(cfg, service.Role{Explain: func(_ context.Context, err error) error {
		return fmt.Errorf("the wolf ate the apiserver: %w", err)
	}}), leads: make(chan struct{})}
	h.Reach(&rest.Config{Host: "https://127.0.0.1:1"}, cfg.Bus, "")
	defer start(t, h.stages()...)()
	for deadline := time.Now().Add(time.Minute); ; {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err := h.Ready(ctx)
		cancel()
		if err != nil && strings.Contains(err.Error(), "the wolf ate the apiserver: the API at 127.0.0.1:1 does not answer") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// TestWithoutManagers follows an object as services do that do not read who manages which fields, and as others do.
func TestWithoutManagers(t *testing.T) {
	for without, managers := range map[bool]int{false: 1, true: 0} {
		api := fake.New(scheme.New(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "a", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}},
		}})
		shell := service.New(service.Config{Logger: quiet}, service.Role{Name: "test", WithoutManagers: without})
		shell.Use(api, listwatch.New(api, quiet))
		factory := shell.NewInformers()
		maps := informer.For[*corev1.ConfigMap](factory)
		stop := start(t, lifecycle.Stage{Name: "informers", Run: factory.Run})
		if err := factory.WaitForCacheSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, err := maps.Lister().Namespace("default").Get("a")
		if err != nil || len(got.ManagedFields) != managers {
			t.Errorf("without managers %t: %+v, %v", without, got, err)
		}
		stop()
	}
}
