package dns

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// anyPort is an address of this machine with a port that the kernel chooses.
var anyPort = netip.MustParseAddrPort("127.0.0.1:0")

// cluster is a server under test with an API of its own.
type cluster struct {
	t       testing.TB
	api     *fake.Client
	server  *Server
	addr    string
	metrics *prometheus.Registry
}

// newCluster starts a server that knows objects. Change changes its configuration.
func newCluster(t testing.TB, objects []scheme.Object, change func(*Config)) *cluster {
	t.Helper()
	table, quiet := scheme.New(), slog.New(slog.DiscardHandler)
	c := &cluster{t: t, api: fake.New(table, objects...), metrics: prometheus.NewRegistry()}
	factory := informer.NewFactory(informer.FactoryConfig{Source: listwatch.New(c.api, quiet), Table: table, Logger: quiet})
	cfg := Config{
		Factory: factory, Domain: "cluster.local", Listen: []netip.AddrPort{anyPort},
		Clients: func(addr netip.Addr) bool { return addr.IsLoopback() }, Logger: quiet, Registerer: c.metrics,
	}
	if change != nil {
		change(&cfg)
	}
	c.server = New(cfg)
	run(t, factory.Run)
	run(t, c.server.Run)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := c.server.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	c.addr = c.server.Addresses()[0].String()
	return c
}

// run runs a function until the test ends.
func run(t testing.TB, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
}

// ask asks the server over UDP or TCP.
func (c *cluster) ask(network string, question *mdns.Msg) *mdns.Msg {
	c.t.Helper()
	client := mdns.Client{Net: network, Timeout: 10 * time.Second}
	answer, _, err := client.Exchange(question, c.addr)
	if err != nil {
		c.t.Fatalf("asking %v: %v", question.Question, err)
	}
	return answer
}

func question(name string, kind uint16) *mdns.Msg {
	return new(mdns.Msg).SetQuestion(mdns.Fqdn(name), kind)
}

// text shows an answer: its code, and its records in the order of their text.
func text(answer *mdns.Msg) string {
	parts := []string{mdns.RcodeToString[answer.Rcode]}
	for i, records := range [][]mdns.RR{answer.Answer, answer.Ns, answer.Extra} {
		var lines []string
		for _, rr := range records {
			switch rr := rr.(type) {
			case *mdns.OPT:
				continue
			case *mdns.SOA:
				lines = append(lines, "SOA "+rr.Hdr.Name)
			default:
				line := strings.TrimPrefix(rr.String(), rr.Header().String())
				lines = append(lines, fmt.Sprintf("%s %s %s", rr.Header().Name, mdns.TypeToString[rr.Header().Rrtype], line))
			}
		}
		slices.Sort(lines)
		if len(lines) > 0 {
			parts = append(parts, []string{"", "authority: ", "extra: "}[i]+strings.Join(lines, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// upstream is another DNS server. It answers by answers, and counts the questions by name.
type upstream struct {
	addr   netip.AddrPort
	mu     sync.Mutex
	asked  map[string]int
	silent atomic.Bool
}

// zoneFile has the records of the upstream, by name; a name without any does not exist. Questions about
// a name with "fails" fail.
type zoneFile map[string]string

func newUpstream(t testing.TB, zone zoneFile) *upstream {
	t.Helper()
	u := &upstream{asked: map[string]int{}}
	conn, listener := openBoth(t)
	u.addr = netip.MustParseAddrPort(conn.LocalAddr().String())
	handler := mdns.HandlerFunc(func(w mdns.ResponseWriter, asked *mdns.Msg) {
		q := asked.Question[0]
		u.mu.Lock()
		u.asked[fmt.Sprintf("%s %s", q.Name, mdns.TypeToString[q.Qtype])]++
		u.mu.Unlock()
		if u.silent.Load() {
			return
		}
		answer := new(mdns.Msg).SetReply(asked)
		exists := false
		for name, records := range zone {
			if name != q.Name {
				continue
			}
			exists = true
			if records == "fails" {
				answer.Rcode = mdns.RcodeServerFailure
				break
			}
			for line := range strings.SplitSeq(records, "\n") {
				rr, err := mdns.NewRR(line)
				if err != nil || rr == nil {
					t.Errorf("the record %q: %v", line, err)
					continue
				}
				if kind := rr.Header().Rrtype; kind == q.Qtype || kind == mdns.TypeCNAME || rr.Header().Name != q.Name {
					answer.Answer = append(answer.Answer, rr)
				}
			}
		}
		if !exists {
			answer.Rcode = mdns.RcodeNameError
		}
		if len(answer.Answer) == 0 {
			soa, _ := mdns.NewRR(". 300 IN SOA a. b. 1 2 3 4 60")
			answer.Ns = []mdns.RR{soa}
		}
		if _, ok := w.RemoteAddr().(*net.UDPAddr); ok {
			answer.Truncate(mdns.MinMsgSize)
		}
		if err := w.WriteMsg(answer); err != nil {
			t.Logf("answering: %v", err)
		}
	})
	for _, server := range []*mdns.Server{{PacketConn: conn, Handler: handler}, {Listener: listener, Handler: handler}} {
		started := make(chan struct{})
		server.NotifyStartedFunc = func() { close(started) }
		run(t, func(ctx context.Context) error {
			stop := context.AfterFunc(ctx, func() { _ = server.Shutdown() })
			defer stop()
			return server.ActivateAndServe()
		})
		<-started
	}
	return u
}

// openBoth opens sockets with the same port.
func openBoth(t testing.TB) (*net.UDPConn, net.Listener) {
	t.Helper()
	for range 100 {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(anyPort))
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", conn.LocalAddr().String())
		if err == nil {
			return conn, listener
		}
		_ = conn.Close()
	}
	t.Fatal("no port is free over UDP and TCP")
	return nil, nil
}

// count returns how often a question was asked.
func (u *upstream) count(question string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asked[question]
}

// all makes an upstream answer all questions outside the cluster.
func (u *upstream) all(cfg *Config) {
	cfg.StubDomains = map[string][]netip.AddrPort{".": {u.addr}}
}

// hostFile writes a resolv.conf.
func hostFile(t testing.TB, text string) (path string) {
	path = filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func service(namespace, name string, change func(*corev1.ServiceSpec)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}},
	}
	change(&s.Spec)
	return s
}

func clusterIPs(ips ...string) func(*corev1.ServiceSpec) {
	return func(spec *corev1.ServiceSpec) { spec.ClusterIP, spec.ClusterIPs = ips[0], ips }
}

// slice returns a slice with endpoints: addresses, each with a hostname behind a slash, and with a
// minus before it if it is not ready.
func slice(namespace, of, name string, endpoints ...string) *discoveryv1.EndpointSlice {
	portName, protocol, port := "http", corev1.ProtocolTCP, int32(8080)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: of}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Protocol: &protocol, Port: &port}},
	}
	for _, text := range endpoints {
		text, unready := strings.CutPrefix(text, "-")
		ready := !unready
		addr, hostname, named := strings.Cut(text, "/")
		e := discoveryv1.Endpoint{Addresses: []string{addr}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
		if named {
			e.Hostname = &hostname
		}
		if strings.Contains(addr, ":") {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}
