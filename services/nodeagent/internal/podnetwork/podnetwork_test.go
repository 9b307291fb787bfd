package podnetwork

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

// soon is when a change of a Node has had its effect: the informer waits a little, too.
const soon = settle + 10*time.Millisecond

// pretended is a kernel that remembers the plans.
type pretended struct {
	lacks error // what the kernel lacks
	mu    sync.Mutex
	// machine and hostErr are what host returns, fault what apply does.
	machine        Host
	hostErr, fault error
	plans          []Plan
	times          []time.Time
}

func (p *pretended) host(netip.Addr, string) (Host, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hostErr != nil {
		p.times = append(p.times, time.Now())
	}
	return p.machine, p.hostErr
}

func (p *pretended) apply(_ context.Context, plan *Plan, _ Host, _ string) (bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.plans, p.times = append(p.plans, *plan), append(p.times, time.Now())
	return true, p.fault
}

func (p *pretended) remove(context.Context, string) error { return nil }

func (p *pretended) prepare(context.Context) error { return p.lacks }

// fail sets what apply returns, and lose what host does.
func (p *pretended) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = err
}

func (p *pretended) lose(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hostErr = err
}

// took returns the plans and forgets them, and the times of the attempts since a time.
func (p *pretended) took(since time.Time) (plans []Plan, after []time.Duration) {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, at := range p.times {
		after = append(after, at.Sub(since))
	}
	plans, p.plans, p.times = p.plans, nil, nil
	return plans, after
}

// world is a running Network on a pretended kernel.
type world struct {
	*Network
	t       *testing.T
	api     *fake.Client
	kernel  *pretended
	dir     string
	events  []string
	began   time.Time
	metrics *prometheus.Registry
	stop    func()
}

// start runs the network of node a.
func start(t *testing.T, objs ...scheme.Object) *world {
	t.Helper()
	return startOn(t, &pretended{machine: machine()}, objs...)
}

// startOn runs the network of node a on a kernel.
func startOn(t *testing.T, kernel *pretended, objs ...scheme.Object) *world {
	t.Helper()
	w := &world{
		t: t, api: fake.New(scheme.New(), objs...), kernel: kernel, dir: t.TempDir(), began: time.Now(),
		metrics: prometheus.NewRegistry(),
	}
	logger := slog.New(slog.DiscardHandler)
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: listwatch.New(w.api, logger), Table: scheme.New(), Logger: logger, Service: "test",
	})
	w.Network = New(Config{
		NodeName: "a", Address: netip.MustParseAddr("10.0.0.1"), Nodes: factory, Mode: Auto, ConfDir: w.dir,
		Event: func(eventType, reason, message string) {
			w.events = append(w.events, eventType+" "+reason+": "+message)
		},
		Logger: logger, Registerer: w.metrics,
	})
	w.Network.kernel = w.kernel
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- factory.Run(ctx) }()
	go func() { ended <- w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := errors.Join(<-ended, <-ended); err != nil {
			t.Errorf("the network ended with %v", err)
		}
	})
	t.Cleanup(w.stop)
	synctest.Wait()
	return w
}

// Pods returns the ranges of the plan that is in effect.
func (w *world) Pods() []netip.Prefix {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.plan == nil {
		return nil
	}
	return w.plan.Pods()
}

func (w *world) conf() string {
	text, err := os.ReadFile(filepath.Join(w.dir, confName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.t.Error(err)
	}
	return string(text)
}

// values returns the values of a gauge or counter by its label.
func (w *world) values(name string) map[string]float64 {
	w.t.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			label := ""
			for _, pair := range metric.GetLabel() {
				label = pair.GetValue()
			}
			if family.GetName() == name {
				values[label] = metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
	}
	return values
}

func own() *corev1.Node { return node("a", 0, "10.0.0.1", "10.244.1.0/24") }

func TestNetworkFollowsNodes(t *testing.T) { synctest.Test(t, testNetworkFollowsNodes) }

func testNetworkFollowsNodes(t *testing.T) {
	w := start(t, own())
	plans, after := w.kernel.took(w.began)
	if len(plans) != 1 || after[0] != 0 || summary(&plans[0]) != "own:10.244.1.0/24" {
		t.Fatalf("at the start: %+v after %v", plans, after)
	}
	if err := w.Ready(); err != nil || !slices.Equal(w.CIDRs(), prefixes("10.244.1.0/24")) || !strings.Contains(w.conf(), `"10.244.1.0/24"`) {
		t.Errorf("Ready: %v, CIDRs: %v, configuration: %s", err, w.CIDRs(), w.conf())
	}
	time.Sleep(10 * time.Second)
	w.kernel.took(w.began)

	// Many changes make one attempt.
	changed := time.Now()
	for i := range 20 {
		w.api.Load(node("b", 1, "10.0.0.2", "10.244.2.0/24"), node("c", i, "10.9.0.3", "10.244.3.0/24"))
		time.Sleep(time.Millisecond)
	}
	time.Sleep(soon)
	plans, after = w.kernel.took(changed)
	if len(plans) != 1 || after[0] < settle || after[0] > soon || summary(&plans[0]) != "own:10.244.1.0/24 b:10.244.2.0/24>10.0.0.2 c~10.244.3.0/24" {
		t.Fatalf("after changes: %d plans after %v", len(plans), after)
	}
	if got, want := w.Pods(), prefixes("10.244.1.0/24 10.244.2.0/24 10.244.3.0/24"); !slices.Equal(got, want) {
		t.Errorf("Pods returns %v, want %v", got, want)
	}
	if got := w.values("garboard_pod_network_peers"); !maps.Equal(got, map[string]float64{"route": 1, "vxlan": 1}) {
		t.Errorf("the metric of peers has %v", got)
	}

	// What says nothing about the network makes none.
	heartbeat := node("b", 1, "10.0.0.2", "10.244.2.0/24")
	heartbeat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.api.Load(heartbeat)
	time.Sleep(time.Second)
	if plans, _ := w.kernel.took(changed); len(plans) != 0 {
		t.Errorf("a heartbeat made %d attempts", len(plans))
	}
	w.api.Remove(heartbeat)
	time.Sleep(time.Second)
	if plans, _ := w.kernel.took(changed); len(plans) != 1 || len(plans[0].Peers) != 1 {
		t.Errorf("after a node left: %+v", plans)
	}
}

// TestResync: the kernel and the configuration's file are compared with the plan now and then.
func TestResync(t *testing.T) { synctest.Test(t, testResync) }

func testResync(t *testing.T) {
	w := start(t, own())
	time.Sleep(time.Second)
	w.kernel.took(w.began)
	if err := os.Remove(filepath.Join(w.dir, confName)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(resyncPeriod)
	if plans, _ := w.kernel.took(w.began); len(plans) != 1 || w.conf() == "" {
		t.Errorf("%d attempts, the file has %q", len(plans), w.conf())
	}
	w.stop()
	if w.conf() == "" || w.Ready() != nil {
		t.Error("the network was removed when the agent ended")
	}
}

func TestRetries(t *testing.T) { synctest.Test(t, testRetries) }

func testRetries(t *testing.T) {
	w := start(t, own())
	began, broken := time.Now(), errors.New("out of order")
	for _, set := range []func(error){w.kernel.lose, w.kernel.fail} {
		time.Sleep(resyncPeriod)
		w.kernel.took(began)
		set(broken)
		began = time.Now()
		time.Sleep(5 * time.Minute)
		_, after := w.kernel.took(began)
		var pauses []time.Duration
		for i := range after[1:] {
			pauses = append(pauses, after[i+1]-after[i])
		}
		const s = time.Second
		if want := []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}; len(pauses) < len(want) || !slices.Equal(pauses[:len(want)], want) {
			t.Errorf("the pauses are %v, want %v …", pauses, want)
		}
		if err := w.Ready(); !errors.Is(err, broken) || !slices.Equal(w.CIDRs(), prefixes("10.244.1.0/24")) {
			t.Errorf("Ready: %v, CIDRs: %v", err, w.CIDRs())
		}
		// A change of a Node does not wait for the next attempt.
		set(nil)
		w.api.Load(node("b", 1, "10.0.0.2", "10.244.2.0/24"))
		time.Sleep(soon)
		if plans, _ := w.kernel.took(began); len(plans) != 1 || w.Ready() != nil {
			t.Errorf("after the repair: %d plans, %v", len(plans), w.Ready())
		}
		w.api.Remove(node("b", 1, "", ""))
		time.Sleep(2 * settle)
	}
}

// TestUnreached: pods start although some other node cannot be connected to, which is tried again.
func TestUnreached(t *testing.T) { synctest.Test(t, testUnreached) }

func testUnreached(t *testing.T) {
	w := start(t)
	w.kernel.fail(&unreachedError{errors.New("no way to b")})
	w.api.Load(own(), node("b", 1, "10.0.0.2", "10.244.2.0/24"))
	time.Sleep(soon)
	_, _ = w.kernel.took(w.began)
	if err := w.Ready(); err != nil || w.conf() == "" || len(w.Pods()) != 2 {
		t.Errorf("Ready: %v, configuration: %q, pods: %v", err, w.conf(), w.Pods())
	}
	time.Sleep(10 * time.Second)
	if plans, _ := w.kernel.took(w.began); len(plans) < 2 {
		t.Errorf("%d more attempts", len(plans))
	}
}

func TestNoCIDR(t *testing.T) { synctest.Test(t, testNoCIDR) }

func testNoCIDR(t *testing.T) {
	w := start(t, node("a", 0, "10.0.0.1", ""))
	if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "--allocate-node-cidrs") || w.CIDRs() != nil || w.Pods() != nil || w.conf() != "" {
		t.Errorf("Ready: %v, CIDRs: %v, pods: %v, configuration: %q", err, w.CIDRs(), w.Pods(), w.conf())
	}
	if plans, _ := w.kernel.took(w.began); len(plans) != 0 {
		t.Errorf("the kernel has the plan %+v", plans)
	}
	w.api.Load(own())
	time.Sleep(soon)
	synctest.Wait()
	if err := w.Ready(); err != nil || len(w.CIDRs()) != 1 {
		t.Errorf("Ready: %v, CIDRs: %v", err, w.CIDRs())
	}
}

// TestIncomplete: what the kernel lacks is told once, and keeps pods from nothing else.
func TestIncomplete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startOn(t, &pretended{machine: machine(), lacks: errors.New("no bridge filter")}, own())
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if err := w.Ready(); err != nil || !slices.Equal(w.events, []string{"Warning PodNetworkIncomplete: no bridge filter"}) {
			t.Errorf("Ready: %v, events %q", err, w.events)
		}
	})
}

// TestRefusedCIDR: the node's own refused CIDR is told once, others' not by an Event.
func TestRefusedCIDR(t *testing.T) { synctest.Test(t, testRefusedCIDR) }

func testRefusedCIDR(t *testing.T) {
	long := strings.Repeat("ä", 40)
	w := start(t, node("a", 0, "10.0.0.1", "172.17.0.0/24 "+long), node("b", 0, "10.0.0.2", "127.0.0.0/24"))
	time.Sleep(5 * time.Minute)
	synctest.Wait()
	want := []string{
		"Warning PodCIDRRefused: pod CIDR 172.17.0.0/24 is not used: it overlaps 172.17.0.0/16, a network of this machine",
		"Warning PodCIDRRefused: pod CIDR " + strings.Repeat("ä", 32) + " is not used: it is not a CIDR",
	}
	if !slices.Equal(w.events, want) {
		t.Errorf("got  %q\nwant %q", w.events, want)
	}
	// It is told again after it was right in between.
	w.api.Load(own())
	time.Sleep(time.Second)
	w.api.Load(node("a", 0, "10.0.0.1", "172.17.0.0/24"))
	time.Sleep(time.Second)
	synctest.Wait()
	if len(w.events) != 3 {
		t.Errorf("got %q", w.events)
	}
}

func TestAnotherConfiguration(t *testing.T) { synctest.Test(t, testAnotherConfiguration) }

func testAnotherConfiguration(t *testing.T) {
	w := start(t)
	other := filepath.Join(w.dir, "05-other.conflist")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w.api.Load(own())
	time.Sleep(soon)
	synctest.Wait()
	if err := w.Ready(); err == nil || !strings.Contains(err.Error(), "05-other.conflist") {
		t.Errorf("Ready returns %v", err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	time.Sleep(retryLongest)
	synctest.Wait()
	if err := w.Ready(); err != nil {
		t.Errorf("after its removal: %v", err)
	}
}

// TestNodesAreNotKnown: nothing is decided before the Nodes are known.
func TestNodesAreNotKnown(t *testing.T) { synctest.Test(t, testNodesAreNotKnown) }

func testNodesAreNotKnown(t *testing.T) {
	k := &pretended{machine: machine()}
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: listwatch.New(fake.New(scheme.New(), own()), slog.New(slog.DiscardHandler)), Table: scheme.New(), Logger: slog.New(slog.DiscardHandler), Service: "test",
	})
	n := New(Config{NodeName: "a", Nodes: factory, ConfDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry()})
	n.kernel = k
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := n.Run(ctx); err != nil { // The factory does not run.
		t.Error(err)
	}
	if err := n.Ready(); err == nil || len(k.plans) != 0 || n.CIDRs() != nil {
		t.Errorf("Ready: %v, plans: %v", err, k.plans)
	}
}
