package records

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/dns/wire"
)

func mustName(t testing.TB, text string) *wire.Name {
	t.Helper()
	name, err := wire.ParseName(text)
	if err != nil {
		t.Fatal(err)
	}
	return &name
}

func newZone(t testing.TB) *Zone { return New(*mustName(t, "cluster.local")) }

// lookup returns what the zone has, as text.
func lookup(t testing.TB, z *Zone, name, kind string) string {
	t.Helper()
	answer, ok := z.Lookup(mustName(t, name), dns.StringToType[kind], []netip.Addr{netip.MustParseAddr("10.0.0.10"), netip.MustParseAddr("fd00::a")})
	switch {
	case !ok:
		return "elsewhere"
	case answer.Missing:
		return "missing"
	case answer.Authority:
		return "SOA"
	}
	var parts []string
	for _, addr := range answer.Addresses {
		parts = append(parts, addr.String())
	}
	for _, s := range answer.Services {
		target := wire.FromWire(s.Target)
		parts = append(parts, fmt.Sprintf("%d %d %s %v", s.Weight, s.Port, target.String(), s.Addresses))
	}
	for _, text := range slices.Concat([]string{answer.Alias}, answer.Names) {
		if text != "" {
			name := wire.FromWire(text)
			parts = append(parts, name.String())
		}
	}
	if answer.Text != "" {
		parts = append(parts, answer.Text)
	}
	return strings.Join(parts, ", ")
}

// reverse returns the names of an address, as text.
func reverse(t testing.TB, z *Zone, addr string) string {
	t.Helper()
	text, err := dns.ReverseAddr(addr)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range z.Reverse(mustName(t, text)) {
		parsed := wire.FromWire(name)
		names = append(names, parsed.String())
	}
	return strings.Join(names, ", ")
}

func expect(t testing.TB, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func serviceNamed(name string, ips ...string) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}}
	if len(ips) > 0 {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = ips[0], ips
	}
	s.Spec.Ports = []corev1.ServicePort{{Name: "HTTP", Protocol: corev1.ProtocolTCP, Port: 80}}
	return s
}

// sliceOf returns a slice of addresses, each with a hostname behind a slash.
func sliceOf(of, name string, ports []int32, endpoints ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "a", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: of}},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, number := range ports {
		name, protocol := fmt.Sprintf("p%d", number), corev1.ProtocolTCP
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &protocol, Port: &number})
	}
	for _, text := range endpoints {
		addr, hostname, named := strings.Cut(text, "/")
		e := discoveryv1.Endpoint{Addresses: []string{addr}}
		if named {
			e.Hostname = &hostname
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// TestOrder checks that a name has the same records in whichever order its objects come.
func TestOrder(t *testing.T) {
	steps := []func(*Zone){
		func(z *Zone) { z.SetService(serviceNamed("web", "None")) },
		func(z *Zone) { z.SetSlice(sliceOf("web", "web-1", []int32{80}, "10.1.0.1/one")) },
		func(z *Zone) { z.SetSlice(sliceOf("web", "web-2", []int32{80}, "10.1.0.2")) },
	}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		z := newZone(t)
		for _, step := range order {
			steps[step](z)
		}
		expect(t, fmt.Sprint(order), lookup(t, z, "web.a.svc.cluster.local", "A"), "10.1.0.1, 10.1.0.2")
		expect(t, fmt.Sprint(order), reverse(t, z, "10.1.0.1"), "one.web.a.svc.cluster.local.")
	}
}

func TestSlicesWithoutService(t *testing.T) {
	z := newZone(t)
	z.SetSlice(sliceOf("web", "web-1", []int32{80}, "10.1.0.1/one"))
	expect(t, "the Service", lookup(t, z, "web.a.svc.cluster.local", "A"), "missing")
	expect(t, "the endpoint", lookup(t, z, "one.web.a.svc.cluster.local", "A"), "missing")
	expect(t, "the namespace", lookup(t, z, "a.svc.cluster.local", "A"), "")
	expect(t, "the address", reverse(t, z, "10.1.0.1"), "one.web.a.svc.cluster.local.")
}

// TestForgets checks that a zone without objects holds nothing.
func TestForgets(t *testing.T) {
	z := newZone(t)
	z.SetService(serviceNamed("web", "10.0.0.1", "fd00::1"))
	z.SetService(serviceNamed("web", "10.0.0.2"))
	expect(t, "the former address", reverse(t, z, "10.0.0.1"), "")
	expect(t, "the address", reverse(t, z, "10.0.0.2"), "web.a.svc.cluster.local.")
	z.SetSlice(sliceOf("web", "web-1", []int32{80}, "10.1.0.1/one", "10.1.0.1/one"))
	z.SetSlice(sliceOf("web", "web-2", []int32{80}, "10.1.0.1/one"))
	expect(t, "an address with one name several times", reverse(t, z, "10.1.0.1"), "one.web.a.svc.cluster.local.")
	z.SetSlice(sliceOf("other", "web-1", []int32{80}, "10.1.0.1/one"))
	expect(t, "an address with two names", reverse(t, z, "10.1.0.1"), "one.web.a.svc.cluster.local., one.other.a.svc.cluster.local.")
	unlabelled := sliceOf("", "web-2", []int32{80}, "10.1.0.1/one")
	z.SetSlice(unlabelled)
	expect(t, "an address in one slice", reverse(t, z, "10.1.0.1"), "one.other.a.svc.cluster.local.")
	z.DeleteSlice("a", "web-1")
	z.DeleteSlice("a", "web-1")
	z.DeleteSlice("a", "web-2")
	z.DeleteService("a", "web")
	z.DeleteService("a", "web")
	if len(z.groups)+len(z.owners)+len(z.reverse)+len(z.namespaces) > 0 {
		t.Errorf("still knows %v, %v, %v, %v", z.groups, z.owners, z.reverse, z.namespaces)
	}
	expect(t, "the namespace", lookup(t, z, "a.svc.cluster.local", "A"), "missing")
}

func TestNamespaces(t *testing.T) {
	z := newZone(t)
	expect(t, "a pod of any namespace", lookup(t, z, "10-0-0-1.b.pod.cluster.local", "A"), "10.0.0.1")
	expect(t, "the pods of any namespace", lookup(t, z, "b.pod.cluster.local", "A"), "missing")
	z.FollowNamespaces()
	expect(t, "a pod of an unknown namespace", lookup(t, z, "10-0-0-1.b.pod.cluster.local", "A"), "missing")
	z.SetNamespace("b")
	expect(t, "a pod of a known namespace", lookup(t, z, "10-0-0-1.b.pod.cluster.local", "A"), "10.0.0.1")
	expect(t, "the namespace", lookup(t, z, "b.svc.cluster.local", "A"), "")
	expect(t, "the pods of the namespace", lookup(t, z, "b.pod.cluster.local", "A"), "")
	z.DeleteNamespace("b")
	expect(t, "a pod of a former namespace", lookup(t, z, "10-0-0-1.b.pod.cluster.local", "A"), "missing")
}

func TestEndpoints(t *testing.T) {
	fqdn := sliceOf("web", "web-3", []int32{80}, "host.example.com")
	fqdn.AddressType = discoveryv1.AddressTypeFQDN
	portless := sliceOf("web", "web-2", nil, "10.1.0.3/three")
	nameless := sliceOf("web", "web-4", []int32{80}, "10.1.0.4", "not an address")
	nameless.Ports = []discoveryv1.EndpointPort{{}}
	no, yes := false, true
	unready := sliceOf("web", "web-5", []int32{80}, "10.1.0.5", "10.1.0.6")
	unready.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &no, Serving: &yes}
	unready.Endpoints[1].Conditions = discoveryv1.EndpointConditions{Ready: &yes, Terminating: &yes}
	z := newZone(t)
	headless := serviceNamed("web", "None")
	headless.Spec.Selector = map[string]string{"app": "web"}
	z.SetService(headless)
	if !z.SetSlice(sliceOf("web", "web-1", []int32{80, 90}, "10.1.0.1/One", "10.1.0.2/one")) {
		t.Error("the Service does not count as one whose endpoints are timed")
	}
	for _, s := range []*discoveryv1.EndpointSlice{fqdn, portless, nameless, unready} {
		z.SetSlice(s)
	}
	for _, tt := range []struct{ name, kind, want string }{
		{"web", "A", "10.1.0.1, 10.1.0.2, 10.1.0.3, 10.1.0.4, 10.1.0.6"},
		{"web", "AAAA", ""},
		{"one.web", "A", "10.1.0.1, 10.1.0.2"},
		{"three.web", "A", "10.1.0.3"},
		{"three.web", "SRV", ""},
		{"10-1-0-4.web", "A", "10.1.0.4"},
		{"10-1-0-5.web", "A", "missing"},
		{"10-1-0-6.web", "A", "10.1.0.6"},
		{"_p90._tcp.web", "A", "10.1.0.1, 10.1.0.2"},
		{"p90.tcp.web", "A", "10.1.0.1, 10.1.0.2"},
		{"_p90._tcp.web", "SRV", "50 90 one.web.a.svc.cluster.local. [10.1.0.1 10.1.0.2]"},
		{"_p90._udp.web", "SRV", "missing"},
		{
			"one.web", "SRV",
			"25 80 one.web.a.svc.cluster.local. [10.1.0.1 10.1.0.2], 25 90 one.web.a.svc.cluster.local. [10.1.0.1 10.1.0.2]",
		},
	} {
		expect(t, tt.name+" "+tt.kind, lookup(t, z, tt.name+".a.svc.cluster.local", tt.kind), tt.want)
	}
	expect(t, "an endpoint without hostname", reverse(t, z, "10.1.0.4"), "10-1-0-4.web.a.svc.cluster.local.")
	expect(t, "an endpoint that is not ready", reverse(t, z, "10.1.0.5"), "")
}

func TestServices(t *testing.T) {
	z := newZone(t)
	z.SetService(serviceNamed("web", "10.0.0.1", "fd00::1"))
	z.SetService(serviceNamed("pending"))
	old := serviceNamed("old")
	old.Spec.ClusterIP, old.Spec.Ports = "10.0.0.2", nil
	z.SetService(old)
	for _, external := range []string{"Www.Example.com.", "10.0.0.3", "a..b", ""} {
		s := serviceNamed(fmt.Sprintf("external%d", len(external)))
		s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, external
		z.SetService(s)
	}
	if z.SetSlice(sliceOf("web", "web-1", []int32{80}, "10.1.0.1/one")) {
		t.Error("a Service that is not headless counts as timed")
	}
	for _, tt := range []struct{ name, kind, want string }{
		{"web.a.svc.cluster.local", "A", "10.0.0.1"},
		{"web.a.svc.cluster.local", "AAAA", "fd00::1"},
		{"_http._tcp.web.a.svc.cluster.local", "SRV", "50 80 web.a.svc.cluster.local. [10.0.0.1 fd00::1]"},
		{"one.web.a.svc.cluster.local", "A", "10.1.0.1"},
		{"pending.a.svc.cluster.local", "A", ""},
		{"pending.a.svc.cluster.local", "SRV", ""},
		{"old.a.svc.cluster.local", "A", "10.0.0.2"},
		{"old.a.svc.cluster.local", "SRV", ""},
		{"_http._tcp.old.a.svc.cluster.local", "SRV", "missing"},
		{"external16.a.svc.cluster.local", "A", "www.example.com."},
		{"external16.a.svc.cluster.local", "CNAME", "www.example.com."},
		{"external16.a.svc.cluster.local", "TXT", ""},
		{"x.external16.a.svc.cluster.local", "A", "missing"},
		{"_http._tcp.external16.a.svc.cluster.local", "A", "missing"},
		{"external8.a.svc.cluster.local", "A", "missing"},
		{"external4.a.svc.cluster.local", "A", "missing"},
		{"external0.a.svc.cluster.local", "A", "missing"},
		{"cluster.local", "SOA", "SOA"},
		{"cluster.local", "NS", "ns.dns.cluster.local."},
		{"cluster.local", "A", ""},
		{"ns.dns.cluster.local", "A", "10.0.0.10"},
		{"ns.dns.cluster.local", "AAAA", "fd00::a"},
		{"x.dns.cluster.local", "A", "missing"},
		{"dns-version.cluster.local", "TXT", Version},
		{"a.dns-version.cluster.local", "TXT", "missing"},
		{"svc.cluster.local", "A", ""},
		{"pod.cluster.local", "A", ""},
		{"a.b.c.d.e.svc.cluster.local", "A", "missing"},
		{"local", "A", "elsewhere"},
		{"xcluster.local", "A", "elsewhere"},
		{`web\.a.svc.cluster.local`, "A", "missing"},
	} {
		expect(t, tt.name+" "+tt.kind, lookup(t, z, tt.name, tt.kind), tt.want)
	}
}

func TestPods(t *testing.T) {
	z := newZone(t)
	z.SetService(serviceNamed("web", "10.0.0.1"))
	for _, tt := range []struct{ label, kind, want string }{
		{"10-1-2-3", "A", "10.1.2.3"},
		{"10-1-2-3", "AAAA", ""},
		{"10-1-2-300", "A", "missing"},
		{"10-1-2-03", "A", "missing"},
		{"fd00--1", "AAAA", "fd00::1"},
		{"fd00--1", "A", ""},
		{"--ffff-a01-203", "A", "10.1.2.3"},
		{"1-2-3-4-5-6-7-8", "AAAA", "1:2:3:4:5:6:7:8"},
		{"web", "A", "missing"},
		{"x.10-1-2-3", "A", "10.1.2.3"},
		{"fe80--1%eth0", "AAAA", "missing"},
		{"v.w.x.y.10-1-2-3", "A", "missing"},
	} {
		expect(t, tt.label+" "+tt.kind, lookup(t, z, tt.label+".a.pod.cluster.local", tt.kind), tt.want)
	}
}

func TestReverse(t *testing.T) {
	z := newZone(t)
	z.SetSlice(sliceOf("web", "web-1", []int32{80}, "10.0.0.1/one"))
	z.SetService(serviceNamed("web", "10.0.0.1", "fd00::1"))
	headless := serviceNamed("headless", "None")
	z.SetService(headless)
	expect(t, "a Service before an endpoint", reverse(t, z, "10.0.0.1"), "web.a.svc.cluster.local.")
	expect(t, "IPv6", reverse(t, z, "fd00::1"), "web.a.svc.cluster.local.")
	for _, text := range []string{
		"0.0.10.in-addr.arpa", "1.1.0.0.10.in-addr.arpa", "01.0.0.10.in-addr.arpa", "256.0.0.10.in-addr.arpa", "+1.0.0.10.in-addr.arpa",
		"1.0.0.10.ip6.arpa", "1.0.0.10.in-addr.local", strings.Repeat("0.", 31) + "g.ip6.arpa", strings.Repeat("0.", 31) + "00.ip6.arpa",
		strings.Repeat("0.", 32) + "in-addr.arpa",
	} {
		if got := z.Reverse(mustName(t, text)); len(got) > 0 {
			t.Errorf("%s: got %q", text, got)
		}
	}
}

func TestGenerated(t *testing.T) {
	for addr, want := range map[string]string{
		"10.1.2.3": "10-1-2-3", "fd00::1": "fd00--1", "fd00:1::": "fd00-1--0", "FD00::A": "fd00--a",
	} {
		expect(t, addr, generated(addr), want)
	}
}

func TestSynced(t *testing.T) {
	z := newZone(t)
	if z.Synced() {
		t.Error("a new zone is whole")
	}
	z.MarkSynced()
	if !z.Synced() || z.Serial() == 0 || z.Domain().String() != "cluster.local." {
		t.Errorf("got %v, %d, %s", z.Synced(), z.Serial(), z.Domain().String())
	}
}

// BenchmarkUpdate measures a change of one slice of a large headless Service.
func BenchmarkUpdate(b *testing.B) {
	z := newZone(b)
	z.SetService(serviceNamed("web", "None"))
	var slices []*discoveryv1.EndpointSlice
	for i := range 50 {
		var endpoints []string
		for j := range 100 {
			endpoints = append(endpoints, fmt.Sprintf("10.1.%d.%d/pod-%d-%d", i, j, i, j))
		}
		slices = append(slices, sliceOf("web", fmt.Sprintf("web-%d", i), []int32{80}, endpoints...))
		z.SetSlice(slices[i])
	}
	for i := 0; b.Loop(); i++ {
		z.SetSlice(slices[i%len(slices)])
	}
}
