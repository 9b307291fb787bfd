package podnetwork

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
)

// pair returns two nodes on one link, each with a pod, and their Nodes.
func pair(t *testing.T) (a, b *labNode, podA, podB *space, nodes []*corev1.Node) {
	t.Helper()
	a, b = newNode(t, "a", "10.0.0.1"), newNode(t, "b", "10.0.0.2")
	cable(a.space, "eth0", b.space, "eth0")
	a.space.address("eth0", "10.0.0.1/24 fd00::1/64")
	b.space.address("eth0", "10.0.0.2/24 fd00::2/64")
	nodes = []*corev1.Node{
		node("a", 2, "10.0.0.1 fd00::1", "10.244.1.0/24 fd01::/64"), node("b", 1, "10.0.0.2 fd00::2", "10.244.2.0/24 fd02::/64"),
	}
	return a, b, a.pod("10.244.1.7/24 fd01::7/64"), b.pod("10.244.2.7/24 fd02::7/64"), nodes
}

// apart returns two nodes in different subnets, the router between them, a pod of each, and the Nodes.
func apart(t *testing.T) (a, b *labNode, router, podA, podB *space, nodes []*corev1.Node) {
	t.Helper()
	a, b, router = newNode(t, "a", "10.1.0.1"), newNode(t, "b", "10.2.0.1"), newSpace(t)
	cable(a.space, "eth0", router, "eth0")
	cable(b.space, "eth0", router, "eth1")
	a.space.address("eth0", "10.1.0.1/24")
	b.space.address("eth0", "10.2.0.1/24")
	router.address("eth0", "10.1.0.254/24")
	router.address("eth1", "10.2.0.254/24")
	a.gateway("10.1.0.254")
	b.gateway("10.2.0.254")
	router.do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0) })
	nodes = []*corev1.Node{
		node("a", 2, "10.1.0.1", "10.244.1.0/24 fd01::/64"), node("b", 1, "10.2.0.1", "10.244.2.0/24 fd02::/64"),
	}
	return a, b, router, a.pod("10.244.1.7/24 fd01::7/64"), b.pod("10.244.2.7/24 fd02::7/64"), nodes
}

// connected requires that the pods of both nodes reach each other, by both families and by their own addresses.
func connected(podA, podB *space) {
	podA.t.Helper()
	for _, ends := range [][2]string{{"10.244.1.7", "10.244.2.7"}, {"fd01::7", "fd02::7"}} {
		reaches(podA, podB, ends[1], ends[0])
		reaches(podB, podA, ends[0], ends[1])
	}
}

func TestRouted(t *testing.T) {
	a, b, podA, podB, nodes := pair(t)
	for _, n := range []*labNode{a, b} {
		n.must(true, nodes, Auto)
		n.must(false, nodes, Auto)
		if traces := n.traces(); strings.Contains(traces, "link") {
			t.Errorf("there is a tunnel: %s", traces)
		}
	}
	connected(podA, podB)
	// Pods reach other nodes, and what is outside, by the node's address.
	reaches(podA, b.space, "10.0.0.2", "10.0.0.1")
	reaches(podA, b.space, "fd00::2", "fd00::1")
	reaches(podB, a.space, "10.0.0.1", "10.0.0.2")
	// The node reaches pods.
	reaches(a.space, podB, "10.244.2.7", "10.0.0.1")
	// Two pods of a node reach each other.
	reaches(a.pod("10.244.1.8/24 fd01::8/64"), podA, "10.244.1.7", "10.244.1.8")

	// Another agent in place of this one finds all as it should be, but for the rules, which it cannot know.
	a.kernel = newKernel()
	if _, err := a.bring(nodes, Auto); err != nil {
		t.Fatal(err)
	}
	a.must(false, nodes, Auto)
	connected(podA, podB)
}

func TestTunneled(t *testing.T) {
	a, b, router, podA, podB, nodes := apart(t)
	if seen, err := ask(podA, podB, "10.244.2.7", noAnswerTimeout); err == nil {
		t.Fatalf("the pods reach each other without the network: from %s", seen)
	}
	for _, n := range []*labNode{a, b} {
		n.must(true, nodes, Auto)
		n.must(false, nodes, Auto)
	}
	connected(podA, podB)
	reaches(podA, router, "10.2.0.254", "10.1.0.1")
	reaches(podA, b.space, "10.2.0.1", "10.1.0.1")
	if seen, err := ask(a.space, podB, "10.244.2.7", answerTimeout); err != nil || seen != "10.244.1.0" {
		t.Errorf("the node reaches the other's pod from %q: %v", seen, err)
	}

	// Nodes on one link use it if they are to.
	a.must(true, []*corev1.Node{nodes[0], node("b", 1, "10.2.0.1", "10.244.3.0/24")}, Auto)
	a.must(true, nodes, Auto)
	connected(podA, podB)

	// The own CIDR changes.
	moved := []*corev1.Node{node("a", 2, "10.1.0.1", "10.244.9.0/24 fd01::/64"), nodes[1]}
	a.must(true, moved, Auto)
	a.must(false, moved, Auto)
	for _, name := range []string{DefaultBridge, tunnelName} {
		if got := a.addresses(name); slices.ContainsFunc(got, prefixes("10.244.1.0/24")[0].Contains) || len(got) == 0 {
			t.Errorf("%s has %v", name, got)
		}
	}
}

// TestTheNodeChanges: a new Node and another address of the node make another end of the tunnels.
func TestTheNodeChanges(t *testing.T) {
	a, b, _, podA, podB, nodes := apart(t)
	a.must(true, nodes, Auto)
	b.must(true, nodes, Auto)
	again := nodes[0].DeepCopy()
	again.UID = "another"
	nodes = []*corev1.Node{again, nodes[1]}
	for _, n := range []*labNode{a, b} {
		n.must(true, nodes, Auto)
		n.must(false, nodes, Auto)
	}
	connected(podA, podB)

	a.space.address("eth0", "10.1.0.9/24")
	a.address = netip.MustParseAddr("10.1.0.9")
	again.Status.Addresses[0].Address = "10.1.0.9"
	for _, n := range []*labNode{a, b} {
		n.must(true, nodes, Auto)
		n.must(false, nodes, Auto)
	}
	connected(podA, podB)
}

// TestARoutedPeerMoves: a peer gets another address on the link.
func TestARoutedPeerMoves(t *testing.T) {
	a, b, podA, podB, nodes := pair(t)
	a.must(true, nodes, Auto)
	b.must(true, nodes, Auto)
	b.do(func() error { // The first address of a network takes the others along.
		link, err := netlink.LinkByName("eth0")
		if err != nil {
			return err
		}
		for _, old := range prefixes("10.0.0.2/24 fd00::2/64") {
			err = errors.Join(err, netlink.AddrDel(link, &netlink.Addr{IPNet: ipNet(old)}))
		}
		return err
	})
	b.space.address("eth0", "10.0.0.9/24 fd00::9/64")
	b.address = netip.MustParseAddr("10.0.0.9")
	nodes = []*corev1.Node{nodes[0], node("b", 1, "10.0.0.9 fd00::9", "10.244.2.0/24 fd02::/64")}
	if _, err := b.bring(nodes, Auto); err != nil {
		t.Fatal(err)
	}
	a.must(true, nodes, Auto)
	a.must(false, nodes, Auto)
	connected(podA, podB)
}

// addresses returns the addresses of an interface that are not link-local.
func (n *labNode) addresses(name string) (all []netip.Addr) {
	n.t.Helper()
	n.do(func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		found, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		for _, address := range found {
			if ip, _ := netip.AddrFromSlice(address.IP); !ip.Unmap().IsLinkLocalUnicast() {
				all = append(all, ip.Unmap())
			}
		}
		return err
	})
	return all
}

// TestDamage: what others take away is repaired.
func TestDamage(t *testing.T) {
	a, b, _, podA, podB, nodes := apart(t)
	a.must(true, nodes, Auto)
	b.must(true, nodes, Auto)
	tunnel := func(do func(netlink.Link) error) func() error {
		return func() error {
			link, err := netlink.LinkByName(tunnelName)
			if err != nil {
				return err
			}
			return do(link)
		}
	}
	forget := func(family int) func() error {
		return tunnel(func(link netlink.Link) error {
			found, err := netlink.NeighList(link.Attrs().Index, family)
			if err != nil {
				return err
			}
			for _, neighbour := range found {
				if neighbour.Family = family; neighbour.State&unix.NUD_PERMANENT != 0 {
					return netlink.NeighDel(&neighbour)
				}
			}
			return errors.New("there is no neighbour")
		})
	}
	program := func(line string) func() error {
		words := strings.Fields(line)
		return func() error { return exec.CommandContext(t.Context(), words[0], words[1:]...).Run() }
	}
	for name, damage := range map[string]func() error{
		"a route":                    func() error { return netlink.RouteDel(&netlink.Route{Dst: ipNet(prefixes("10.244.2.0/24")[0])}) },
		"a route of IPv6":            func() error { return netlink.RouteDel(&netlink.Route{Dst: ipNet(prefixes("fd02::/64")[0])}) },
		"a neighbour":                forget(unix.AF_INET),
		"a neighbour of IPv6":        forget(unix.AF_INET6),
		"the other end":              forget(unix.AF_BRIDGE),
		"the device":                 tunnel(netlink.LinkDel),
		"the device is off":          tunnel(netlink.LinkSetDown),
		"the device has a wrong MTU": tunnel(func(link netlink.Link) error { return netlink.LinkSetMTU(link, 1300) }),
		"forwarding":                 func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0) },
		"the table":                  program("nft delete table ip " + filterTable),
		"all rules":                  program("nft flush ruleset"),
		"the rules of the table":     program("nft flush table ip6 " + filterTable),
		"the elements of a set":      program("nft flush set ip " + filterTable + " pods"),
		"an address of the device": tunnel(func(link netlink.Link) error {
			return netlink.AddrDel(link, &netlink.Addr{IPNet: ipNet(prefixes("10.244.1.0/32")[0])})
		}),
		"another address of the pods": tunnel(func(link netlink.Link) error {
			return netlink.AddrAdd(link, &netlink.Addr{IPNet: ipNet(prefixes("10.99.1.0/32")[0])})
		}),
		"another device of this name": func() error {
			return errors.Join(tunnel(netlink.LinkDel)(), netlink.LinkAdd(&netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: tunnelName}}))
		},
		"a route elsewhere": func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			return netlink.RouteReplace(&netlink.Route{
				Dst: ipNet(prefixes("10.244.2.0/24")[0]), LinkIndex: link.Attrs().Index, Gw: net.ParseIP("10.1.0.254"), Protocol: routeProtocol,
			})
		},
		"a route to a node that is no more": tunnel(func(link netlink.Link) error {
			return netlink.RouteAdd(&netlink.Route{Dst: ipNet(prefixes("10.244.77.0/24")[0]), LinkIndex: link.Attrs().Index, Protocol: routeProtocol})
		}),
	} {
		t.Run(name, func(t *testing.T) {
			a.do(damage)
			a.must(true, nodes, Auto)
			a.must(false, nodes, Auto)
			connected(podA, podB)
		})
	}
}

// TestPeersLeave: nothing is left of a node that is no more, and of tunnels that nobody uses.
func TestPeersLeave(t *testing.T) {
	a, _, _, _, _, nodes := apart(t)
	third := node("c", 1, "10.3.0.1", "10.244.3.0/24 fd03::/64")
	all := append(slices.Clone(nodes), third)
	a.must(true, all, Auto)
	if ends, routes := a.count(); ends != 6 || routes != 4 {
		t.Fatalf("with two peers: %d entries of neighbours, %d routes", ends, routes)
	}
	a.must(true, nodes, Auto)
	if ends, routes := a.count(); ends != 3 || routes != 2 {
		t.Errorf("with one peer: %d entries of neighbours, %d routes", ends, routes)
	}
	if rules := a.run("nft", "list", "table", "ip", filterTable); strings.Contains(rules, "10.244.3.") || !strings.Contains(rules, "10.244.2.255") {
		t.Errorf("the rules are %s", rules)
	}
	// A peer gets another address, and another CIDR.
	a.must(true, []*corev1.Node{nodes[0], node("b", 1, "10.2.0.9", "10.244.8.0/24")}, Auto)
	if ends, routes := a.count(); ends != 2 || routes != 1 {
		t.Errorf("with a moved peer: %d entries of neighbours, %d routes", ends, routes)
	}
	a.must(true, nodes, Routed)
	if traces := a.traces(); strings.Contains(traces, "link") || strings.Contains(traces, "route") || !strings.Contains(traces, "table") {
		t.Errorf("after a switch to routes: %s", traces)
	}
	a.must(false, nodes, Routed)
	if rules := a.run("nft", "list", "table", "ip", filterTable); !strings.Contains(rules, "10.244.2.255") {
		t.Errorf("what pods send by other routers is masqueraded: %s", rules)
	}
}

// count returns the number of permanent neighbours of the tunnel, and that of routes.
func (n *labNode) count() (ends, routes int) {
	n.t.Helper()
	n.do(func() error {
		link, err := netlink.LinkByName(tunnelName)
		if err != nil {
			return err
		}
		for _, family := range []int{unix.AF_BRIDGE, unix.AF_INET, unix.AF_INET6} {
			found, err := netlink.NeighList(link.Attrs().Index, family)
			if err != nil {
				return err
			}
			for _, neighbour := range found {
				if neighbour.State&unix.NUD_PERMANENT != 0 && !neighbour.IP.IsMulticast() {
					ends++
				}
			}
		}
		found, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		routes = len(found)
		return err
	})
	return ends, routes
}

// TestModesOnALink: tunnels work on one link, too, and a switch back to routes removes them.
func TestModesOnALink(t *testing.T) {
	a, b, podA, podB, nodes := pair(t)
	for _, mode := range []Mode{Tunneled, Routed, Tunneled, Auto} {
		a.must(true, nodes, mode)
		b.must(true, nodes, mode)
		if tunnels := strings.Contains(a.traces(), "link "+tunnelName); tunnels != (mode == Tunneled) {
			t.Errorf("%s: a tunnel: %v", mode, tunnels)
		}
		connected(podA, podB)
	}
}

// TestTunnelOverIPv6: the nodes have addresses of IPv6 alone.
func TestTunnelOverIPv6(t *testing.T) {
	a, b, podA, podB, nodes := pair(t)
	a.address, b.address = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	for _, n := range []*labNode{a, b} {
		n.must(true, nodes, Tunneled)
		n.must(false, nodes, Tunneled)
	}
	connected(podA, podB)
}

// TestAHostileNode: a Node that claims an address that cannot be a gateway does not harm the others.
func TestAHostileNode(t *testing.T) {
	a, b, podA, podB, nodes := pair(t)
	nodes = append(nodes, node("c", 9, "10.0.0.255", "10.244.3.0/24"), node("d", 9, "10.0.0.0", "10.244.4.0/24"))
	for _, n := range []*labNode{a, b} {
		_, err := n.bring(nodes, Auto)
		if unreached := (*unreachedError)(nil); !errors.As(err, &unreached) || !strings.Contains(err.Error(), "10.244.3.0/24") {
			t.Errorf("got %v", err)
		}
	}
	connected(podA, podB)
}

func TestRemove(t *testing.T) {
	a, _, _, _, _, nodes := apart(t)
	dir := t.TempDir()
	a.run("iptables", "-P", "FORWARD", "DROP")
	a.run("ip6tables", "-P", "FORWARD", "DROP")
	a.must(true, nodes, Auto)
	if err := writeConfiguration(dir, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if traces := a.traces(); !strings.Contains(traces, "link") || !strings.Contains(traces, "route") ||
		!strings.Contains(traces, filterTable) || !strings.Contains(traces, forwardChain) {
		t.Fatalf("before: %s", traces)
	}
	for range 2 {
		a.do(func() error { return Remove(t.Context(), dir, "") })
		if traces := a.traces(); traces != "" {
			t.Errorf("left: %s", traces)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, confName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the configuration is left: %v", err)
	}
	if len(a.addresses(DefaultBridge)) != 2 {
		t.Error("the bridge lost its addresses, which pods use")
	}
}

func TestHost(t *testing.T) {
	a, _, _, _, _ := pair(t)
	var host Host
	a.do(func() (err error) {
		host, err = a.kernel.host(a.address, DefaultBridge)
		return err
	})
	if host.Interface != "eth0" || host.MTU != 1500 || !host.onLink(netip.MustParseAddr("10.0.0.9")) || !host.onLink(netip.MustParseAddr("fd00::9")) ||
		host.onLink(netip.MustParseAddr("10.0.1.1")) {
		t.Errorf("got %+v", host)
	}
	for _, network := range prefixes("127.0.0.0/8 10.0.0.0/24 fd00::/64") {
		if !slices.Contains(host.Networks, network) {
			t.Errorf("%s is missing in %v", network, host.Networks)
		}
	}
	for _, own := range prefixes("10.244.1.0/24 fd01::/64") {
		if slices.ContainsFunc(host.Networks, own.Overlaps) {
			t.Errorf("the bridge's networks are in %v", host.Networks)
		}
	}
	if !slices.Contains(host.Addresses, netip.MustParseAddr("fd00::1")) {
		t.Errorf("the addresses are %v", host.Addresses)
	}
	err := a.try(func() error {
		_, err := a.kernel.host(netip.MustParseAddr("10.0.0.77"), DefaultBridge)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "--node-ip") {
		t.Errorf("got %v", err)
	}
}
