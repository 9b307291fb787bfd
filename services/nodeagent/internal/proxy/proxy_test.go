package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// plane is an API, a proxy and a kernel.
type plane struct {
	t        *testing.T
	services client.Resource[*corev1.Service]
	slices   client.Resource[*discoveryv1.EndpointSlice]
	kernel   *fakeKernel
	proxy    *Proxy
	metrics  *prometheus.Registry
	stop     func()

	mu     sync.Mutex
	events []string
}

// start runs a proxy; for use in a synctest bubble.
func start(t *testing.T, kernel *fakeKernel, change func(*Config), objects ...scheme.Object) *plane {
	t.Helper()
	table := scheme.New()
	api := fake.New(table, objects...)
	quiet := slog.New(slog.DiscardHandler)
	p := &plane{
		t: t, services: client.Of[*corev1.Service](api), slices: client.Of[*discoveryv1.EndpointSlice](api), kernel: kernel,
		metrics: prometheus.NewRegistry(),
	}
	factory := informer.NewFactory(informer.FactoryConfig{Source: listwatch.New(api, quiet), Table: table, Logger: quiet})
	cfg := Config{
		Factory: factory, NodeName: "n1", NodeIPs: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
		Logger: quiet, Registerer: p.metrics, Events: p.event,
		Netfilter: func() (Netfilter, error) { return kernel, nil }, Flows: func() (Flows, error) { return kernel, nil },
	}
	if change != nil {
		change(&cfg)
	}
	var err error
	if p.proxy, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, run := range []func(context.Context) error{factory.Run, p.proxy.Run} {
		running.Go(func() {
			if err := run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	p.stop = func() { cancel(); running.Wait() }
	t.Cleanup(p.stop)
	if err := p.proxy.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *plane) event(object runtime.Object, eventType, reason, message string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.events = append(p.events, fmt.Sprintf("%T %s %s: %s", object, eventType, reason, message))
}

func web(name string) *corev1.Service {
	ip := fmt.Sprintf("10.96.0.%d", name[0])
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{ClusterIP: ip, ClusterIPs: []string{ip}, Type: corev1.ServiceTypeClusterIP, Ports: []corev1.ServicePort{
			{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80},
		}},
	}
}

func endpointsOf(name string, protocol corev1.Protocol, addrs ...string) *discoveryv1.EndpointSlice {
	portName, port := "web", int32(8080)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &portName, Protocol: &protocol, Port: &port}},
	}
	for _, addr := range addrs {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{addr}})
	}
	return s
}

func (p *plane) update(name string, protocol corev1.Protocol, addrs ...string) {
	p.t.Helper()
	slice, err := p.slices.Get(p.t.Context(), "default", name+"-1", metav1.GetOptions{})
	if err != nil {
		p.t.Fatal(err)
	}
	slice.Endpoints = endpointsOf(name, protocol, addrs...).Endpoints
	slice.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}
	if _, err := p.slices.Update(p.t.Context(), slice, metav1.UpdateOptions{}); err != nil {
		p.t.Fatal(err)
	}
}

func (p *plane) expect(want string) {
	p.t.Helper()
	if got := p.kernel.endpoints(ruleset.IPv4); got != want {
		p.t.Errorf("endpoints %q, want %q", got, want)
	}
}

const tcp, udp = corev1.ProtocolTCP, corev1.ProtocolUDP

func TestChangesReachTheKernel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newFakeKernel(), nil, web("a"), endpointsOf("a", tcp, "10.244.1.2"), web("b"))
		p.expect("10.244.1.2:8080")
		writes, _ := p.kernel.counts()
		time.Sleep(time.Minute)
		p.update("a", tcp, "10.244.1.3")
		// The loop was idle, so that it acts at once.
		time.Sleep(defaultMinSyncPeriod / 10)
		p.expect("10.244.1.3:8080")
		if now, _ := p.kernel.counts(); now != writes+1 {
			t.Errorf("one change takes %d transactions", now-writes)
		}
		if _, err := p.slices.Create(t.Context(), endpointsOf("b", tcp, "10.244.1.9"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		p.expect("10.244.1.3:8080 10.244.1.9:8080")
		if err := errors.Join(p.services.Delete(t.Context(), "default", "a", metav1.DeleteOptions{}),
			p.slices.Delete(t.Context(), "default", "b-1", metav1.DeleteOptions{})); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		p.expect("")
		if actual, _ := p.kernel.Read(ruleset.IPv4, ""); slices.ContainsFunc(chainNames(actual), func(n string) bool { return strings.HasPrefix(n, "service-") }) {
			t.Errorf("unused chains stay: %v", chainNames(actual))
		}
		p.stop()
		if p.kernel.closed != 2 {
			t.Errorf("%d connections are closed", p.kernel.closed)
		}
	})
}

func chainNames(actual *ruleset.Actual) []string {
	var names []string
	for name := range actual.Chains {
		names = append(names, name)
	}
	return names
}

// TestFlapping has an endpoint that changes 1,000 times a second for a minute.
func TestFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newFakeKernel(), nil, web("a"), endpointsOf("a", udp, "10.244.1.2"))
		if _, err := p.services.Patch(t.Context(), "default", "a", types.MergePatchType,
			[]byte(`{"spec":{"ports":[{"name":"web","protocol":"UDP","port":80}]}}`), metav1.PatchOptions{}, ""); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		before, endedBefore := p.kernel.counts()
		for i := range 5000 {
			p.update("a", udp, fmt.Sprintf("10.244.2.%d", i%250+1))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		p.expect("10.244.2.250:8080")
		writes, ended := p.kernel.counts()
		if writes-before > 55 || writes-before < 20 {
			t.Errorf("5 s of flapping take %d transactions", writes-before)
		}
		if ended-endedBefore > 8 || ended == endedBefore {
			t.Errorf("5 s of flapping take %d searches for stale connections", ended-endedBefore)
		}
	})
}

func TestForeignChangeIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newFakeKernel(), nil, web("a"), endpointsOf("a", tcp, "10.244.1.2"))
		time.Sleep(time.Second)
		reads := p.kernel.reads
		time.Sleep(10 * time.Minute)
		if p.kernel.reads != reads {
			t.Errorf("the table is read %d times although nothing happened", p.kernel.reads-reads)
		}
		p.kernel.damage(ruleset.IPv4, func(actual *ruleset.Actual) { clear(actual.Elements) })
		time.Sleep(31 * time.Second)
		p.expect("10.244.1.2:8080")
		// Damage that the kernel does not tell of is repaired at last.
		p.kernel.damage(ruleset.IPv4, func(actual *ruleset.Actual) { clear(actual.Elements) })
		if err := p.kernel.MarkSeen(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		p.expect("10.244.1.2:8080")
	})
}

// TestDamageIsFoundByAChange has a change that the kernel refuses because of damage.
func TestDamageIsFoundByAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newFakeKernel(), nil, web("a"), endpointsOf("a", tcp, "10.244.1.2"))
		time.Sleep(10 * time.Second)
		p.kernel.damage(ruleset.IPv4, func(actual *ruleset.Actual) { clear(actual.Elements) })
		p.update("a", tcp, "10.244.1.3")
		time.Sleep(defaultMinSyncPeriod / 10)
		p.expect("10.244.1.3:8080")
	})
}

// TestRefusedServiceHoldsUpNoOther has a Service that the kernel refuses.
func TestRefusedServiceHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kernel := newFakeKernel()
		p := start(t, kernel, nil, web("a"), endpointsOf("a", tcp), web("b"), endpointsOf("b", tcp))
		kernel.mu.Lock()
		kernel.refuse = "default/a:"
		kernel.mu.Unlock()
		p.update("a", tcp, "10.244.1.1")
		p.update("b", tcp, "10.244.1.2")
		time.Sleep(time.Second)
		p.expect("10.244.1.2:8080")
		for i := range 20 {
			p.update("a", tcp, fmt.Sprintf("10.244.1.%d", 100+i))
			p.update("b", tcp, fmt.Sprintf("10.244.1.%d", 200+i))
			time.Sleep(time.Second)
			p.expect(fmt.Sprintf("10.244.1.%d:8080", 200+i))
		}
		kernel.mu.Lock()
		reads := kernel.reads
		kernel.mu.Unlock()
		for i := range 500 {
			p.update("a", tcp, fmt.Sprintf("10.244.2.%d", i%250+1))
			time.Sleep(10 * time.Millisecond)
		}
		kernel.mu.Lock()
		reads = kernel.reads - reads
		kernel.mu.Unlock()
		// Both families' tables are read once in 5 s at most.
		if reads > 4 {
			t.Errorf("5 s of flapping make the table be read %d times", reads)
		}
		p.update("a", tcp, "10.244.1.119")
		if p.proxy.health.Healthy() != true {
			t.Error("unhealthy within a minute")
		}
		time.Sleep(2 * time.Minute)
		if p.proxy.health.Healthy() {
			t.Error("healthy although rules are missing")
		}
		kernel.mu.Lock()
		kernel.refuse = ""
		kernel.mu.Unlock()
		time.Sleep(10 * time.Second)
		p.expect("10.244.1.119:8080 10.244.1.219:8080")
		if !p.proxy.health.Healthy() {
			t.Error("unhealthy although all rules are written")
		}
	})
}

func TestRestartWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kernel, objects := newFakeKernel(), []scheme.Object{web("a"), endpointsOf("a", tcp, "10.244.1.2"), web("b")}
		start(t, kernel, nil, objects...).stop()
		writes, _ := kernel.counts()
		p := start(t, kernel, nil, objects...)
		time.Sleep(time.Minute)
		if now, _ := kernel.counts(); now != writes {
			t.Errorf("the second proxy wrote %d transactions", now-writes)
		}
		p.stop()
		p = start(t, kernel, nil, web("b"))
		time.Sleep(time.Minute)
		p.expect("")
	})
}

func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newFakeKernel(), nil, web("a"), endpointsOf("a", tcp, "10.244.1.2", "127.0.0.1"))
		time.Sleep(time.Minute)
		p.update("a", tcp, "10.244.1.3", "127.0.0.1")
		time.Sleep(time.Minute)
		p.update("a", tcp, "10.244.1.3", "169.254.169.254")
		time.Sleep(time.Minute)
		p.expect("10.244.1.3:8080")
		want := []string{
			"*v1.EndpointSlice Warning EndpointAddressRefused: endpoint address 127.0.0.1 is loopback",
			"*v1.EndpointSlice Warning EndpointAddressRefused: endpoint address 169.254.169.254 is link-local",
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if !slices.Equal(p.events, want) {
			t.Errorf("events %q", p.events)
		}
	})
}

func TestNodeChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		zone, local := "a", netip.AddrPort{}
		slice := endpointsOf("a", tcp, "10.244.1.2", "10.244.1.3")
		for i, z := range []string{"a", "b"} {
			slice.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: z}}}
		}
		p := start(t, newFakeKernel(), func(c *Config) {
			c.Zone = func() string { mu.Lock(); defer mu.Unlock(); return zone }
			c.Local = map[types.NamespacedName]func() netip.AddrPort{
				{Namespace: "default", Name: "b"}: func() netip.AddrPort { mu.Lock(); defer mu.Unlock(); return local },
			}
		}, web("a"), slice, web("b"), endpointsOf("b", tcp, "10.244.9.9"))
		p.expect("10.244.1.2:8080 10.244.9.9:8080")
		mu.Lock()
		zone, local = "b", netip.MustParseAddrPort("192.0.2.1:6443")
		mu.Unlock()
		p.proxy.NodeChanged()
		p.proxy.NodeChanged()
		synctest.Wait()
		p.expect("10.244.1.3:8080 192.0.2.1:6443")
		mu.Lock()
		local = netip.AddrPort{}
		mu.Unlock()
		time.Sleep(31 * time.Second)
		p.expect("10.244.1.3:8080 10.244.9.9:8080")
	})
}

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, newFakeKernel(), nil, web("a"), endpointsOf("a", tcp, "10.244.1.2"))
		time.Sleep(time.Second)
		p.update("a", tcp, "10.244.1.3")
		time.Sleep(time.Second)
		families, err := p.metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, family := range families {
			names = append(names, family.GetName())
			if family.GetName() == "kubeproxy_network_programming_duration_seconds" && family.GetMetric()[0].GetHistogram().GetSampleCount() != 1 {
				t.Errorf("network programming: %v", family)
			}
		}
		for _, want := range []string{
			"sync_proxy_rules_duration_seconds", "sync_proxy_rules_last_timestamp_seconds", "sync_proxy_rules_last_queued_timestamp_seconds",
			"network_programming_duration_seconds", "sync_proxy_rules_endpoint_changes_total", "sync_proxy_rules_endpoint_changes_pending",
			"sync_proxy_rules_service_changes_total", "sync_proxy_rules_service_changes_pending", "sync_proxy_rules_no_local_endpoints_total",
		} {
			if !slices.Contains(names, "kubeproxy_"+want) {
				t.Errorf("kubeproxy_%s is missing", want)
			}
		}
	})
}

func TestNewRefusesHalfAConfig(t *testing.T) {
	if _, err := New(Config{NodeName: "n1"}); err == nil {
		t.Error("a proxy without a factory was created")
	}
}
