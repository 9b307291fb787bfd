package dns

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

// metric returns the value of a metric, summed over what has all of some labels.
func (c *cluster) metric(name string, labels map[string]string) (value float64) {
	c.t.Helper()
	families, err := c.metrics.Gather()
	if err != nil {
		c.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			if has(m.GetLabel(), labels) {
				value += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return value
}

func has(pairs []*dto.LabelPair, labels map[string]string) bool {
	found := 0
	for _, pair := range pairs {
		if want, ok := labels[pair.GetName()]; ok && want == pair.GetValue() {
			found++
		}
	}
	return found == len(labels)
}

// send sends bytes over UDP, and returns what comes back. If nothing shall come back, it returns nil,
// or what came back anyway.
func (c *cluster) send(data []byte, nothing bool) []byte {
	c.t.Helper()
	conn, err := net.Dial("udp", c.addr)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write(data); err != nil {
		c.t.Fatal(err)
	}
	patience := 10 * time.Second
	if nothing {
		patience = 200 * time.Millisecond
	}
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	answer := make([]byte, 65535)
	n, err := conn.Read(answer)
	switch {
	case nothing && err != nil:
		return nil
	case err != nil:
		c.t.Fatal(err)
	}
	return answer[:n]
}

func TestMessages(t *testing.T) {
	c := newCluster(t, someObjects(), nil)
	web := func(change func(*mdns.Msg)) []byte {
		m := question("web.a.svc.cluster.local", mdns.TypeA)
		change(m)
		packed, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return packed
	}
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"a question", web(func(*mdns.Msg) {}), "NOERROR; web.a.svc.cluster.local. A 10.0.0.1"},
		{"an answer", web(func(m *mdns.Msg) { m.Response = true }), "nothing"},
		{"a byte", []byte{1}, "nothing"},
		{"a header alone", web(func(*mdns.Msg) {})[:12], "FORMERR"},
		{"cut", web(func(*mdns.Msg) {})[:20], "FORMERR"},
		{"two questions", web(func(m *mdns.Msg) { m.Question = append(m.Question, m.Question[0]) }), "FORMERR"},
		{"an update", web(func(m *mdns.Msg) { m.Opcode = mdns.OpcodeUpdate }), "NOTIMP"},
		{"a notification", web(func(m *mdns.Msg) { m.Opcode = mdns.OpcodeNotify }), "NOTIMP"},
		{"class CHAOS", web(func(m *mdns.Msg) { m.Question[0].Qclass = mdns.ClassCHAOS }), "REFUSED"},
		{"class ANY", web(func(m *mdns.Msg) { m.Question[0].Qclass = mdns.ClassANY }), "REFUSED"},
		{"a transfer", web(func(m *mdns.Msg) { m.Question[0].Qtype = mdns.TypeAXFR }), "REFUSED"},
		{"an incremental transfer", web(func(m *mdns.Msg) { m.Question[0].Qtype = mdns.TypeIXFR }), "REFUSED"},
		{"type 0", web(func(m *mdns.Msg) { m.Question[0].Qtype = 0 }), "REFUSED"},
		{"type OPT", web(func(m *mdns.Msg) { m.Question[0].Qtype = mdns.TypeOPT }), "REFUSED"},
		{"EDNS version 1", web(func(m *mdns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }), "BADVERS"},
		{"everything", web(func(m *mdns.Msg) { m.Question[0].Qtype = mdns.TypeANY }), `NOERROR; web.a.svc.cluster.local. HINFO "RFC8482" ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := "nothing"
			if data := c.send(tt.data, tt.want == got); data != nil {
				answer := new(mdns.Msg)
				if err := answer.Unpack(data); err != nil {
					t.Fatal(err)
				}
				got = strings.ReplaceAll(text(answer), "BADSIG", "BADVERS") // The same number.
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// TestStrangers checks that the server answers only its clients.
func TestStrangers(t *testing.T) {
	u := newUpstream(t, zoneFile{"example.com.": "example.com. 60 IN A 192.0.2.1"})
	c := newCluster(t, someObjects(), func(cfg *Config) {
		u.all(cfg)
		cfg.Clients = nil
	})
	for _, name := range []string{"web.a.svc.cluster.local", "example.com", "1.0.0.10.in-addr.arpa"} {
		if got := text(c.ask("udp", question(name, mdns.TypeA))); got != "REFUSED" {
			t.Errorf("%s: got %s", name, got)
		}
	}
	conn, err := net.Dial("tcp", c.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetReadDeadline(time.Now().Add(idleTime / 2))
	if _, err := conn.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("a connection of a stranger stays open: %v", err)
	}
	if n := u.count("example.com. A"); n > 0 {
		t.Errorf("strangers made the server ask %d times", n)
	}
}

func TestTruncation(t *testing.T) {
	var addrs []string
	for i := range 200 {
		addrs = append(addrs, fmt.Sprintf("10.1.%d.%d", i/100, i%100))
	}
	objects := append(someObjects(), service("a", "many", clusterIPs("None")), slice("a", "many", "many-1", addrs...))
	c := newCluster(t, objects, nil)
	for _, tt := range []struct {
		network    string
		size, want int
	}{{"udp", 0, 29}, {"udp", 1000, 59}, {"udp", 4096, 73}, {"tcp", 0, 200}} {
		asked := question("many.a.svc.cluster.local", mdns.TypeA)
		if tt.size > 0 {
			asked.SetEdns0(uint16(tt.size), false)
		}
		answer := c.ask(tt.network, asked)
		if n := len(answer.Answer); n != tt.want || answer.Truncated != (n < 200) {
			t.Errorf("%s with %d bytes: got %d records, truncated: %v", tt.network, tt.size, n, answer.Truncated)
		}
		if opt := answer.IsEdns0(); (opt != nil) != (tt.size > 0) || opt != nil && opt.UDPSize() != 1232 {
			t.Errorf("got extensions %v", opt)
		}
	}
	// The first address is another each time.
	first := map[string]bool{}
	for range 20 {
		first[c.ask("udp", question("many.a.svc.cluster.local", mdns.TypeA)).Answer[0].String()] = true
	}
	if len(first) < 5 {
		t.Errorf("20 answers begin with %d addresses", len(first))
	}
	answer := c.ask("tcp", question("_http._tcp.many.a.svc.cluster.local", mdns.TypeSRV))
	if len(answer.Answer) != 200 || len(answer.Extra) != 200 || answer.Answer[0].(*mdns.SRV).Weight != 1 {
		t.Errorf("got %d services and %d addresses", len(answer.Answer), len(answer.Extra))
	}
}

// TestFreshness checks that names follow their objects, within the time promised.
func TestFreshness(t *testing.T) {
	c := newCluster(t, someObjects(), func(cfg *Config) { cfg.Namespaces = true })
	services, slices := client.Of[*corev1.Service](c.api), client.Of[*discoveryv1.EndpointSlice](c.api)
	namespaces := client.Of[*corev1.Namespace](c.api)
	ctx := t.Context()
	await := func(name, want string) {
		t.Helper()
		began := time.Now()
		got := ""
		for time.Since(began) < 10*time.Second {
			if got = text(c.ask("udp", question(name, mdns.TypeA))); got == want {
				if took := time.Since(began); took > 100*time.Millisecond {
					t.Logf("%s took %v", name, took)
				}
				return
			}
		}
		t.Errorf("%s: got %s, want %s", name, got, want)
	}
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const nxdomain, nodata = "NXDOMAIN; authority: SOA cluster.local.", "NOERROR; authority: SOA cluster.local."
	await("new.c.svc.cluster.local", nxdomain)
	await("10-0-0-1.d.pod.cluster.local", nxdomain)
	must(namespaces.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{}))
	await("d.svc.cluster.local", nodata)
	await("10-0-0-1.d.pod.cluster.local", "NOERROR; 10-0-0-1.d.pod.cluster.local. A 10.0.0.1")

	headless := service("c", "new", func(spec *corev1.ServiceSpec) {
		clusterIPs("None")(spec)
		spec.Selector = map[string]string{"app": "new"}
	})
	must(services.Create(ctx, headless, metav1.CreateOptions{}))
	await("c.svc.cluster.local", nodata)
	endpoints := slice("c", "new", "new-1", "-10.1.0.1/one")
	must(slices.Create(ctx, endpoints, metav1.CreateOptions{}))
	await("one.new.c.svc.cluster.local", nxdomain)
	current, err := slices.Get(ctx, "c", "new-1", metav1.GetOptions{})
	must(nil, err)
	current = current.DeepCopy()
	ready := true
	current.Endpoints[0].Conditions.Ready = &ready
	current.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: time.Now().Format(time.RFC3339Nano)}
	must(slices.Update(ctx, current, metav1.UpdateOptions{}))
	await("one.new.c.svc.cluster.local", "NOERROR; one.new.c.svc.cluster.local. A 10.1.0.1")
	if n := c.metric("coredns_kubernetes_dns_programming_duration_seconds", map[string]string{"service_kind": "headless_with_selector"}); n != 1 {
		t.Errorf("measured %v changes", n)
	}
	must(nil, slices.Delete(ctx, "c", "new-1", metav1.DeleteOptions{}))
	await("one.new.c.svc.cluster.local", nxdomain)
	must(nil, services.Delete(ctx, "c", "new", metav1.DeleteOptions{}))
	await("c.svc.cluster.local", nxdomain)
}

func TestMetrics(t *testing.T) {
	u := newUpstream(t, zoneFile{"example.com.": "example.com. 60 IN A 192.0.2.1"})
	c := newCluster(t, someObjects(), u.all)
	for _, name := range []string{"web.a.svc.cluster.local", "x.a.svc.cluster.local", "example.com", "example.com"} {
		c.ask("udp", question(name, mdns.TypeA))
	}
	c.ask("tcp", question("web.a.svc.cluster.local", mdns.TypeNAPTR))
	for _, tt := range []struct {
		name   string
		labels map[string]string
		want   float64
	}{
		{"coredns_dns_requests_total", map[string]string{"proto": "udp", "family": "1", "type": "A", "zone": ".", "server": "dns://:53"}, 4},
		{"coredns_dns_requests_total", map[string]string{"proto": "tcp", "type": "other"}, 1},
		{"coredns_dns_responses_total", map[string]string{"rcode": "NOERROR", "plugin": "kubernetes"}, 2},
		{"coredns_dns_responses_total", map[string]string{"rcode": "NXDOMAIN", "plugin": "kubernetes"}, 1},
		{"coredns_dns_responses_total", map[string]string{"rcode": "NOERROR", "plugin": "forward"}, 1},
		{"coredns_dns_responses_total", map[string]string{"rcode": "NOERROR", "plugin": "cache"}, 1},
		{"coredns_dns_request_duration_seconds", nil, 5},
		{"coredns_dns_request_size_bytes", map[string]string{"proto": "udp"}, 4},
		{"coredns_dns_response_size_bytes", map[string]string{"proto": "tcp"}, 1},
		{"coredns_cache_entries", map[string]string{"type": "success"}, 1},
		{"coredns_cache_hits_total", nil, 1},
		{"coredns_cache_misses_total", nil, 1},
		{"coredns_panics_total", nil, 0},
		{"coredns_proxy_request_duration_seconds", map[string]string{"proxy_name": "forward", "to": u.addr.String(), "rcode": "NOERROR"}, 1},
	} {
		if got := c.metric(tt.name, tt.labels); got != tt.want {
			t.Errorf("%s%v is %v, want %v", tt.name, tt.labels, got, tt.want)
		}
	}
}

// TestPanic checks that a panic costs one question and is counted.
func TestPanic(t *testing.T) {
	c := newCluster(t, someObjects(), func(cfg *Config) {
		cfg.PodNamespace = func(netip.Addr) (string, bool) { panic("a bug") }
	})
	asked, _ := question("x.a.svc.cluster.local", mdns.TypeA).Pack()
	if got := c.send(asked, true); got != nil {
		t.Errorf("got %q", got)
	}
	if n := c.metric("coredns_panics_total", nil); n != 1 {
		t.Errorf("counted %v panics", n)
	}
}

// TestConnections checks the bounds of connections.
func TestConnections(t *testing.T) {
	c := newCluster(t, someObjects(), nil)
	open := func() bool {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		asked, _ := question("web.a.svc.cluster.local", mdns.TypeA).Pack()
		for range 2 { // A connection serves several questions.
			_, _ = conn.Write(append([]byte{0, byte(len(asked))}, asked...))
			_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
			var size [2]byte
			if _, err := io.ReadFull(conn, size[:]); err != nil {
				return false
			}
			if _, err := io.ReadFull(conn, make([]byte, int(size[0])<<8|int(size[1]))); err != nil {
				return false
			}
		}
		return true
	}
	for i := range maxClientConnections {
		if !open() {
			t.Fatalf("connection %d is closed", i)
		}
	}
	if open() {
		t.Error("there is no bound of connections")
	}
}

// TestWaiting checks the bounds of questions that wait for other servers.
func TestWaiting(t *testing.T) {
	u := newUpstream(t, zoneFile{})
	u.silent.Store(true)
	c := newCluster(t, someObjects(), u.all)
	conn, err := net.Dial("udp", c.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	for i := range maxClientWaiting {
		asked, _ := question(fmt.Sprintf("a%d.example.com", i), mdns.TypeA).Pack()
		if _, err := conn.Write(asked); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); ; {
			c.server.waiting.mu.Lock()
			n := c.server.waiting.all
			c.server.waiting.mu.Unlock()
			if n == i+1 {
				break
			}
			if time.Since(began) > 3*time.Second {
				t.Fatalf("%d of %d questions wait", n, i+1)
			}
		}
	}
	if got := text(c.ask("udp", question("one-more.example.com", mdns.TypeA))); got != "SERVFAIL" {
		t.Errorf("beyond the bound: got %s", got)
	}
	if got := text(c.ask("udp", question("web.a.svc.cluster.local", mdns.TypeA))); got != "NOERROR; web.a.svc.cluster.local. A 10.0.0.1" {
		t.Errorf("what need not wait: got %s", got)
	}
	if n := c.metric("coredns_forward_max_concurrent_rejects_total", nil); n != 1 {
		t.Errorf("counted %v", n)
	}
}

// TestListenLater checks that the server waits for its address.
func TestListenLater(t *testing.T) {
	taken, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(taken.LocalAddr().String())
	var lines strings.Builder
	table := scheme.New()
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: listwatch.New(fake.New(table), slog.New(slog.DiscardHandler)), Table: table, Logger: slog.New(slog.DiscardHandler),
	})
	s := New(Config{
		Factory: factory, Domain: "cluster.local", Listen: []netip.AddrPort{addr},
		Logger: slog.New(slog.NewTextHandler(&lines, nil)),
	})
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	run(t, factory.Run)
	go func() {
		defer close(ended)
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	}()
	soon, stop := context.WithTimeout(ctx, time.Second)
	defer stop()
	if err := s.Ready(soon); err == nil {
		t.Error("ready without an address")
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	later, stop := context.WithTimeout(ctx, 20*time.Second)
	defer stop()
	if err := s.Ready(later); err != nil {
		t.Error(err)
	}
	if !s.isOwn(addr) || len(s.Addresses()) != 1 {
		t.Errorf("serves %v", s.Addresses())
	}
	cancel()
	<-ended
	if n := strings.Count(lines.String(), "is tried again"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, lines.String())
	}
}

func TestInvalid(t *testing.T) {
	for _, cfg := range []Config{{Domain: "a..b"}, {Domain: "cluster.local", StubDomains: map[string][]netip.AddrPort{"a..b": nil}}} {
		s := New(cfg)
		if err := s.Run(t.Context()); err == nil {
			t.Errorf("runs with %+v", cfg)
		}
		if err := s.Ready(t.Context()); err == nil {
			t.Errorf("is ready with %+v", cfg)
		}
	}
}

// TestBeforeSync checks that a server that does not know all objects yet denies no name.
func TestBeforeSync(t *testing.T) {
	c := newCluster(t, someObjects(), nil)
	table := scheme.New()
	quiet := slog.New(slog.DiscardHandler)
	s := New(Config{
		Factory: informer.NewFactory(informer.FactoryConfig{Source: listwatch.New(fake.New(table), quiet), Table: table, Logger: quiet}),
		Domain:  "cluster.local", Listen: []netip.AddrPort{anyPort}, Clients: func(netip.Addr) bool { return true }, Logger: quiet,
	})
	run(t, s.Run) // Nothing runs its informers.
	<-s.listening
	c.addr = s.Addresses()[0].String()
	if got := text(c.ask("udp", question("web.a.svc.cluster.local", mdns.TypeA))); got != "SERVFAIL" {
		t.Errorf("got %s", got)
	}
}
