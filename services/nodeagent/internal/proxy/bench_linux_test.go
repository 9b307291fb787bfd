package proxy

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/nft"
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

// endpointsEach is the number of endpoints of a Service in benchmarks.
const endpointsEach = 10

// populated returns a table of n Services, in a network namespace of its own.
func populated(b *testing.B, n int) *table {
	b.Helper()
	if os.Geteuid() != 0 {
		b.Skip("a network namespace needs root")
	}
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		b.Skipf("a network namespace is not possible here: %v", err)
	}
	conn, err := nft.Open()
	if err != nil {
		b.Skipf("nftables is not possible here: %v", err)
	}
	b.Cleanup(func() {
		if err := conn.Close(); err != nil {
			b.Error(err)
		}
	})
	t := newTable(ruleset.IPv4, "gb-bench", conn, slog.New(slog.DiscardHandler), newMetrics(nil))
	t.wanted.SetSkeleton(rules.Skeleton(ruleset.IPv4, benchNode()))
	for i := range n {
		unit, _ := rules.Compile(ruleset.IPv4, benchNode(), benchService(i), benchSlices(i, 0), netip.AddrPort{})
		t.put(&unit, true)
	}
	start := time.Now()
	if err := t.repair(); err != nil {
		b.Fatal(err)
	}
	b.Logf("%d services from nothing: %v", n, time.Since(start))
	return t
}

func benchNode() *rules.Node {
	return &rules.Node{
		Name: "n1", IPs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
	}
}

func benchService(i int) *corev1.Service {
	ip := fmt.Sprintf("10.96.%d.%d", i>>8, i&255)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("s-%d", i)},
		Spec: corev1.ServiceSpec{
			ClusterIP: ip, ClusterIPs: []string{ip}, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
}

// benchSlices returns the endpoints of a Service; round changes one of them.
func benchSlices(i, round int) []*discoveryv1.EndpointSlice {
	name, protocol, port, node := "web", corev1.ProtocolTCP, int32(8080), "n2"
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("s-%d-1", i)},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}
	for e := range endpointsEach {
		addr := fmt.Sprintf("10.%d.%d.%d", 128+i>>8, i&255, e+1)
		if e == 0 {
			addr = fmt.Sprintf("10.200.%d.%d", round>>8&255, round&255)
		}
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: &node})
	}
	return []*discoveryv1.EndpointSlice{slice}
}

// BenchmarkFromNothing writes a table of many Services that the kernel does not have.
func BenchmarkFromNothing(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := populated(b, n)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				if err := t.kernel.(*nft.Conn).DeleteTable(ruleset.IPv4, t.name); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if err := t.repair(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEndpointChange replaces one endpoint of one Service among many, up to the kernel.
func BenchmarkEndpointChange(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := populated(b, n)
			round := 0
			for b.Loop() {
				round++
				unit, _ := rules.Compile(ruleset.IPv4, benchNode(), benchService(n/2), benchSlices(n/2, round), netip.AddrPort{})
				change, _ := t.put(&unit, true)
				if err := t.apply([]*ruleset.Change{change}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkVerification compares the whole table with the kernel.
func BenchmarkVerification(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := populated(b, n)
			for b.Loop() {
				if err := t.repair(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkEndpointCount adds and removes an endpoint of one Service among many, which changes a rule:
// the kernel then checks all rules for loops.
func BenchmarkEndpointCount(b *testing.B) {
	for _, n := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			t := populated(b, n)
			round := 0
			for b.Loop() {
				round++
				endpointSlices := benchSlices(n/2, 0)
				endpointSlices[0].Endpoints = endpointSlices[0].Endpoints[:endpointsEach-round%2]
				unit, _ := rules.Compile(ruleset.IPv4, benchNode(), benchService(n/2), endpointSlices, netip.AddrPort{})
				change, _ := t.put(&unit, true)
				if err := t.apply([]*ruleset.Change{change}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkFirstPacket opens a connection through the first and through the last of 10,000 Services.
func BenchmarkFirstPacket(b *testing.B) {
	const n = 10_000
	t := populated(b, n)
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		b.Fatal(err)
	}
	_, services, _ := net.ParseCIDR("10.96.0.0/12")
	err = errors.Join(netlink.LinkSetUp(loopback), netlink.AddrAdd(loopback, &netlink.Addr{IPNet: host("10.200.0.1")}),
		netlink.RouteAdd(&netlink.Route{LinkIndex: loopback.Attrs().Index, Dst: services, Scope: netlink.SCOPE_LINK}))
	listener, listenErr := net.Listen("tcp", "10.200.0.1:8080")
	if err = errors.Join(err, listenErr); err != nil {
		b.Fatal(err)
	}
	for _, i := range []int{0, n - 1} {
		endpointSlices := benchSlices(i, 1)
		endpointSlices[0].Endpoints = endpointSlices[0].Endpoints[:1]
		unit, _ := rules.Compile(ruleset.IPv4, benchNode(), benchService(i), endpointSlices, netip.AddrPort{})
		change, _ := t.put(&unit, true)
		if err := t.apply([]*ruleset.Change{change}); err != nil {
			b.Fatal(err)
		}
	}
	// The thread is in the namespace, which that of a sub-benchmark would not be.
	const connections = 500
	for _, i := range []int{0, n - 1, 0, n - 1} {
		start := time.Now()
		for range connections {
			client, err := net.Dial("tcp", net.JoinHostPort(benchService(i).Spec.ClusterIP, "80"))
			if err != nil {
				b.Fatal(err)
			}
			server, err := listener.Accept()
			if err = errors.Join(err, client.Close(), server.Close()); err != nil {
				b.Fatal(err)
			}
		}
		b.Logf("a connection through service %d: %v", i+1, time.Since(start)/connections)
	}
	if err := listener.Close(); err != nil {
		b.Fatal(err)
	}
}
