package proxy

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/nft"
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/conntrack"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

// patience is how long a client waits for an answer; silence is how long it waits for none. A new link
// may lose packets for a second, and over IPv6 the kernel heeds only the second refusal of a client
// that it shares, a second after the first.
const (
	patience = 40 * time.Second
	silence  = 400 * time.Millisecond
)

// plan has the addresses of a lab.
type plan struct {
	family                      ruleset.Family
	nodeIP, client, gateway     string
	local, other, remoteIP      string
	pods, services              string
	cluster, external, balancer string
	world                       string
}

func plans() map[string]plan {
	return map[string]plan{
		"IPv4": {
			ruleset.IPv4, "192.0.2.1", "192.0.2.2", "10.244.1.1", "10.244.1.2", "10.244.1.3", "10.244.2.2",
			"10.244.1.0/24", "10.96.0.0/12", "10.96.0.1", "203.0.113.1", "203.0.113.2", "198.51.100.1",
		},
		"IPv6": {
			ruleset.IPv6, "2001:db8::1", "2001:db8::2", "fd00:1::1", "fd00:1::2", "fd00:1::3", "fd00:2::2",
			"fd00:1::/64", "fd00:96::/108", "fd00:96::1", "2001:db8:1::1", "2001:db8:1::2", "2001:db8:2::1",
		},
	}
}

// lab is a client, a node and three endpoints, each in a network namespace of its own. The node
// routes; the first two endpoints are its pods, the third is another node's. The world is where the
// node sends what it has no route for.
type lab struct {
	plan
	t                                *testing.T
	clientNS, nodeNS                 netns.NsHandle
	localNS, otherNS, remoteNS       netns.NsHandle
	worldNS                          netns.NsHandle
	conn                             *nft.Conn
	flows                            *conntrack.Flows
	table                            *table
	node                             *rules.Node
	localServer, otherServer, remote *server
}

func newLab(t *testing.T, p plan) *lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	l := &lab{plan: p, t: t}
	for _, ns := range []*netns.NsHandle{&l.clientNS, &l.nodeNS, &l.localNS, &l.otherNS, &l.remoteNS, &l.worldNS} {
		*ns = l.namespace()
	}
	l.in(l.nodeNS, func() {
		// IPv4 and IPv6 both forward; a family that the kernel lacks has no lab.
		for _, file := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			l.must(os.WriteFile("/proc/sys/net/"+file, []byte("1"), 0))
		}
		var err error
		l.conn, err = nft.Open()
		l.must(err)
		l.flows, err = conntrack.Open()
		l.must(err)
	})
	t.Cleanup(func() { l.must(errors.Join(l.conn.Close(), l.flows.Close())) })
	l.link(l.clientNS, l.client, l.nodeAddr())
	for ns, addr := range map[netns.NsHandle]string{l.localNS: l.local, l.otherNS: l.other, l.remoteNS: l.remoteAddr(), l.worldNS: l.world} {
		l.link(ns, addr, l.gateway)
	}
	l.in(l.nodeNS, func() { l.route(l.world, fmt.Sprintf("to-%d", l.worldNS)) })
	l.localServer, l.otherServer, l.remote = l.serve(l.localNS, "local"), l.serve(l.otherNS, "other"), l.serve(l.remoteNS, "remote")
	l.node = &rules.Node{
		Name: "n1", IPs: []netip.Addr{netip.MustParseAddr(l.nodeAddr())}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix(l.pods)},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix(l.services)},
	}
	l.table = newTable(p.family, "gb-test", l.conn, slog.New(slog.DiscardHandler), newMetrics(nil))
	l.table.wanted.SetSkeleton(rules.Skeleton(p.family, l.node))
	l.must(l.table.repair())
	return l
}

func (l *lab) nodeAddr() string   { return l.nodeIP }
func (l *lab) remoteAddr() string { return l.remoteIP }

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Errorf("%v", err)
	}
}

// namespace creates a network namespace, with its loopback up.
func (l *lab) namespace() netns.NsHandle {
	var handle netns.NsHandle
	done := make(chan error)
	go func() {
		// The thread ends with the goroutine; the namespace stays as long as its handle.
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			handle, err = netns.Get()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		l.t.Skipf("network namespaces are not possible here: %v", err)
	}
	l.t.Cleanup(func() { l.must(handle.Close()) })
	l.in(handle, func() {
		l.up("lo")
		// Addresses are usable at once.
		for _, which := range []string{"all", "default"} {
			l.must(os.WriteFile("/proc/sys/net/ipv6/conf/"+which+"/accept_dad", []byte("0"), 0))
		}
	})
	return handle
}

// in calls a function in a network namespace.
func (l *lab) in(ns netns.NsHandle, f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if err := netns.Set(ns); err != nil {
			l.t.Errorf("entering a network namespace: %v", err)
			return
		}
		f()
	}()
	<-done
}

func (l *lab) up(name string) netlink.Link {
	link, err := netlink.LinkByName(name)
	l.must(err)
	l.must(netlink.LinkSetUp(link))
	return link
}

// link connects a namespace to the node, which is its gateway.
func (l *lab) link(ns netns.NsHandle, addr, gateway string) {
	peer := fmt.Sprintf("to-%d", ns)
	l.in(l.nodeNS, func() {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = peer
		l.must(netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "eth0", PeerNamespace: netlink.NsFd(ns)}))
		link := l.up(peer)
		l.address(link, gateway)
		l.must(netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: host(addr), Scope: netlink.SCOPE_LINK}))
	})
	l.in(ns, func() {
		link := l.up("eth0")
		l.address(link, addr)
		l.must(netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: host(gateway), Scope: netlink.SCOPE_LINK}))
		l.route(gateway, "eth0")
	})
}

func (l *lab) address(link netlink.Link, addr string) {
	l.must(netlink.AddrAdd(link, &netlink.Addr{IPNet: host(addr), Flags: unix.IFA_F_NODAD}))
}

// route adds a default route.
func (l *lab) route(gateway, device string) {
	route := &netlink.Route{Gw: net.ParseIP(gateway)}
	link, err := netlink.LinkByName(device)
	l.must(err)
	route.LinkIndex = link.Attrs().Index
	l.must(netlink.RouteAdd(route))
}

func host(addr string) *net.IPNet {
	a := netip.MustParseAddr(addr)
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// server answers every client, over TCP and UDP, with its name and the client's address.
type server struct {
	name string
	tcp  net.Listener
	udp  net.PacketConn
}

func (l *lab) serve(ns netns.NsHandle, name string) *server {
	s := &server{name: name}
	l.in(ns, func() {
		var err error
		s.tcp, err = net.Listen("tcp", ":8080")
		l.must(err)
		s.udp, err = net.ListenPacket("udp", ":8080")
		l.must(err)
	})
	done := make(chan struct{}, 2)
	go func() {
		defer func() { done <- struct{}{} }()
		for {
			conn, err := s.tcp.Accept()
			if err != nil {
				return
			}
			// A client that is gone does not matter.
			_, _ = fmt.Fprintf(conn, "%s %s\n", name, addrOf(conn.RemoteAddr()))
			_ = conn.Close()
		}
	}()
	go func() {
		defer func() { done <- struct{}{} }()
		buf := make([]byte, 16)
		for {
			_, from, err := s.udp.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = s.udp.WriteTo([]byte(name+" "+addrOf(from)+"\n"), from)
		}
	}()
	l.t.Cleanup(func() {
		l.must(errors.Join(s.tcp.Close(), s.udp.Close()))
		<-done
		<-done
	})
	return s
}

func addrOf(a net.Addr) string {
	at, _ := netip.ParseAddrPort(a.String())
	return at.Addr().Unmap().String()
}

// apply makes a Service have the given slices.
func (l *lab) apply(s *corev1.Service, slices ...*discoveryv1.EndpointSlice) {
	l.t.Helper()
	unit, refused := rules.Compile(l.family, l.node, s, slices, netip.AddrPort{})
	if len(refused) > 0 {
		l.t.Errorf("refused: %v", refused)
	}
	change, _ := l.table.put(&unit, true)
	if err := l.table.apply([]*ruleset.Change{change}); err != nil {
		l.t.Errorf("apply: %v", err)
	}
}

// dial connects over TCP and returns the server's name and the address it sees, or "refused" or
// "nothing".
func (l *lab) dial(ns netns.NsHandle, addr string, port int) string {
	return l.dialFor(patience, ns, addr, port)
}

func (l *lab) dialFor(timeout time.Duration, ns netns.NsHandle, addr string, port int) string {
	var answer string
	l.in(ns, func() {
		dialer := net.Dialer{Timeout: timeout}
		conn, err := dialer.Dial("tcp", net.JoinHostPort(addr, fmt.Sprint(port)))
		if err != nil {
			answer = outcome(err)
			return
		}
		answer = read(conn, timeout)
		l.must(conn.Close())
	})
	return answer
}

// expect fails the test unless a client gets an answer that begins with want.
func (l *lab) expect(who string, ns netns.NsHandle, addr string, port int, want string) {
	l.t.Helper()
	timeout := patience
	if want == "nothing" {
		timeout = silence
	}
	if got := l.dialFor(timeout, ns, addr, port); !strings.HasPrefix(got, want) {
		l.t.Errorf("%s at %s port %d: got %q, want %q", who, addr, port, got, want)
	}
}

func outcome(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "nothing"
	}
	return err.Error()
}

func read(conn net.Conn, timeout time.Duration) string {
	if err := conn.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return err.Error()
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return outcome(err)
	}
	return strings.TrimSpace(line)
}

func (l *lab) owner() types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: "web"}
}

func (l *lab) skeleton() ([]ruleset.Set, []ruleset.Chain, []ruleset.Element) {
	return rules.Skeleton(l.family, l.node)
}
