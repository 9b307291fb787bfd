package upstreamdns

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	ours "github.com/garboard/garboard/services/nodeagent/internal/dns"
)

// startOurs starts our server with the same objects, and returns its address.
func startOurs(t testing.TB, objects []scheme.Object, upstream string, change func(*ours.Config)) string {
	t.Helper()
	table, quiet := scheme.New(), slog.New(slog.DiscardHandler)
	factory := informer.NewFactory(informer.FactoryConfig{
		Source: listwatch.New(fake.New(table, objects...), quiet), Table: table, Logger: quiet,
	})
	cfg := ours.Config{
		Factory: factory, Namespaces: true, Domain: "cluster.local", Listen: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")},
		Clients:     func(netip.Addr) bool { return true },
		StubDomains: map[string][]netip.AddrPort{".": {netip.MustParseAddrPort(upstream)}}, Logger: quiet,
	}
	if change != nil {
		change(&cfg)
	}
	server := ours.New(cfg)
	run(t, factory.Run)
	run(t, server.Run)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := server.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	return server.Addresses()[0].String()
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

// startUpstream starts the server that both sides forward to, and returns its address.
func startUpstream(t testing.TB) string {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	records := map[string][]string{
		"www.example.com.":       {"www.example.com. 3600 IN CNAME host.example.com.", "host.example.com. 3600 IN A 192.0.2.1"},
		"example.com.":           {"example.com. 3600 IN A 192.0.2.2", "example.com. 3600 IN MX 10 mail.example.com."},
		"9.9.9.9.in-addr.arpa.":  {"9.9.9.9.in-addr.arpa. 3600 IN PTR other.example.com."},
		"4.0.1.10.in-addr.arpa.": {"4.0.1.10.in-addr.arpa. 3600 IN PTR another.example.com."},
	}
	server := &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, asked *dns.Msg) {
		answer := new(dns.Msg).SetReply(asked)
		name := strings.ToLower(asked.Question[0].Name)
		texts, exists := records[name]
		for _, text := range texts {
			rr, _ := dns.NewRR(text)
			if kind := rr.Header().Rrtype; kind == asked.Question[0].Qtype || kind == dns.TypeCNAME || rr.Header().Name != name {
				answer.Answer = append(answer.Answer, rr)
			}
		}
		if !exists {
			answer.Rcode = dns.RcodeNameError
		}
		if len(answer.Answer) == 0 {
			soa, _ := dns.NewRR("example.com. 300 IN SOA a. b. 1 2 3 4 60")
			answer.Ns = []dns.RR{soa}
		}
		_ = w.WriteMsg(answer)
	})}
	started := make(chan struct{})
	server.NotifyStartedFunc = func() { close(started) }
	run(t, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = server.Shutdown() })
		defer stop()
		return server.ActivateAndServe()
	})
	<-started
	return conn.LocalAddr().String()
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, ResourceVersion: "1"}
}

func service(namespace, name string, ips []string, ports ...corev1.ServicePort) *corev1.Service {
	s := &corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: meta(namespace, name)}
	s.Spec.Type, s.Spec.Ports, s.Spec.ClusterIPs = corev1.ServiceTypeClusterIP, ports, ips
	if len(ips) > 0 {
		s.Spec.ClusterIP = ips[0]
	}
	return s
}

func external(name, target string) *corev1.Service {
	s := service("a", name, nil)
	s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, target
	return s
}

func slice(of, name string, kind discoveryv1.AddressType, ports []corev1.ServicePort, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"},
		ObjectMeta: meta("a", name), AddressType: kind, Endpoints: endpoints,
	}
	s.Labels = map[string]string{discoveryv1.LabelServiceName: of}
	for _, p := range ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &p.Name, Protocol: &p.Protocol, Port: &p.Port})
	}
	return s
}

// endpoint returns a ready endpoint, with a hostname unless that is empty.
func endpoint(hostname string, addrs ...string) discoveryv1.Endpoint {
	ready := true
	e := discoveryv1.Endpoint{Addresses: addrs, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}
	if hostname != "" {
		e.Hostname = &hostname
	}
	return e
}

// unready returns an endpoint that is not ready, but serves.
func unready(addr string) discoveryv1.Endpoint {
	e, no, yes := endpoint("unready", addr), false, true
	e.Conditions.Ready, e.Conditions.Serving, e.Conditions.Terminating = &no, &yes, &yes
	return e
}

// objects are Services and EndpointSlices of all kinds.
func objects() []scheme.Object {
	http := corev1.ServicePort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}
	metrics := corev1.ServicePort{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 9090}
	domain := corev1.ServicePort{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53}
	unnamed := corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 8080}
	v4, v6 := discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6
	list := []scheme.Object{
		service("a", "web", []string{"10.0.0.1"}, http),
		slice("web", "web-1", v4, []corev1.ServicePort{http}, endpoint("", "10.1.0.1"), endpoint("named", "10.1.0.2"), unready("10.1.0.3")),
		service("a", "dual", []string{"10.0.0.2", "fd00::2"}, http, domain),
		service("a", "six", []string{"fd00::3"}, unnamed),
		service("a", "portless", []string{"10.0.0.4"}),
		service("a", "pending", []string{""}, http),
		service("a", "headless", []string{"None"}, http, metrics),
		slice("headless", "headless-1", v4, []corev1.ServicePort{http, metrics}, endpoint("zero", "10.1.0.4"), endpoint("", "10.1.0.5"), unready("10.1.0.6")),
		slice("headless", "headless-2", v6, []corev1.ServicePort{http, metrics}, endpoint("zero", "fd00:1::4"), endpoint("", "fd00:1::")),
		slice("headless", "headless-3", v4, []corev1.ServicePort{domain}, endpoint("two", "10.1.0.7"), endpoint("two", "10.1.0.8")),
		service("a", "nobody", []string{"None"}, http),
		service("a", "unready", []string{"None"}, http),
		slice("unready", "unready-1", v4, []corev1.ServicePort{http}, unready("10.1.0.9")),
		service("a", "bare", []string{"None"}),
		slice("bare", "bare-1", v4, nil, endpoint("solo", "10.1.0.10")),
		slice("orphan", "orphan-1", v4, []corev1.ServicePort{http}, endpoint("lost", "10.1.0.11")),
		external("outside", "www.example.com"), external("gone", "missing.example.com"), external("address", "10.9.9.9"),
		external("inside", "web.a.svc.cluster.local"), external("itself", "itself.a.svc.cluster.local"), external("chain", "inside.a.svc.cluster.local"),
		external("nowhere", "nowhere.b.svc.cluster.local"), external("pod", "10-1-1-1.a.pod.cluster.local"), external("dotted", "example.com."),
		external("loop1", "loop2.a.svc.cluster.local"), external("loop2", "loop1.a.svc.cluster.local"),
		service("b", "web", []string{"10.0.0.5"}, http),
	}
	for _, name := range []string{"a", "b", "empty"} {
		list = append(list, &corev1.Namespace{TypeMeta: metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"}, ObjectMeta: meta("", name)})
	}
	return list
}
