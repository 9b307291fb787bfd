package podnetwork

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// node returns a Node of an age in minutes, whose addresses and CIDRs are separated by blanks.
func node(name string, age int, addresses, cidrs string) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-" + name),
			CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC).Add(-time.Duration(age) * time.Minute)),
		},
		Spec: corev1.NodeSpec{PodCIDRs: strings.Fields(cidrs)},
	}
	for address := range strings.FieldsSeq(addresses) {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address})
	}
	return n
}

// machine returns the machine of node a: 10.0.0.1 and fd00::1 on a link, and a bridge of Docker's.
func machine() Host {
	return Host{
		Address: netip.MustParseAddr("10.0.0.1"), Interface: "eth0", MTU: 1500,
		Links:     prefixes("10.0.0.0/24 fd00::/64 fe80::/64"),
		Networks:  prefixes("127.0.0.0/8 ::1/128 10.0.0.0/24 fd00::/64 fe80::/64 172.17.0.0/16"),
		Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("fd00::1"), netip.MustParseAddr("172.17.0.1")},
	}
}

func prefixes(text string) []netip.Prefix {
	var all []netip.Prefix
	for one := range strings.FieldsSeq(text) {
		all = append(all, netip.MustParsePrefix(one))
	}
	return all
}

// summary describes a plan: its CIDRs, its peers with their ways, what is beyond, and the nodes refused.
func summary(plan *Plan) string {
	var words []string
	add := func(mark string, cidrs []netip.Prefix) {
		for _, cidr := range cidrs {
			words = append(words, mark+cidr.String())
		}
	}
	add("own:", plan.CIDRs)
	for _, peer := range plan.Peers {
		if peer.Tunnel {
			add(peer.Node+"~", peer.CIDRs)
			continue
		}
		for _, cidr := range peer.CIDRs {
			words = append(words, fmt.Sprintf("%s:%s>%s", peer.Node, cidr, peer.via(cidr)))
		}
	}
	add("beyond:", plan.Beyond)
	for _, one := range plan.Refused {
		words = append(words, fmt.Sprintf("-%s:%s", one.Node, one.CIDR))
	}
	return strings.Join(words, " ")
}

func TestDecide(t *testing.T) {
	own := node("a", 0, "10.0.0.1", "10.244.1.0/24")
	near := func(cidrs string) *corev1.Node { return node("b", 5, "10.0.0.2", cidrs) }
	for name, tc := range map[string]struct {
		mode  Mode // Auto if empty
		nodes []*corev1.Node
		want  string
	}{
		"no Nodes":                        {"", nil, ""},
		"this node is not known":          {"", []*corev1.Node{near("10.244.2.0/24")}, "b:10.244.2.0/24>10.0.0.2"},
		"alone":                           {"", []*corev1.Node{own}, "own:10.244.1.0/24"},
		"on the link":                     {"", []*corev1.Node{own, near("10.244.2.0/24")}, "own:10.244.1.0/24 b:10.244.2.0/24>10.0.0.2"},
		"off the link":                    {"", []*corev1.Node{own, node("b", 1, "10.9.0.2", "10.244.2.0/24")}, "own:10.244.1.0/24 b~10.244.2.0/24"},
		"off the link, routes":            {Routed, []*corev1.Node{own, node("b", 1, "10.9.0.2", "10.244.2.0/24")}, "own:10.244.1.0/24 beyond:10.244.2.0/24"},
		"on the link, vxlan":              {Tunneled, []*corev1.Node{own, near("10.244.2.0/24")}, "own:10.244.1.0/24 b~10.244.2.0/24"},
		"own CIDR before an older node's": {"", []*corev1.Node{near("10.244.1.0/24"), own}, "own:10.244.1.0/24 -b:10.244.1.0/24"},
		"the oldest keeps a shared CIDR":  {"", []*corev1.Node{node("c", 1, "10.0.0.3", "10.244.2.0/23"), near("10.244.2.0/24")}, "b:10.244.2.0/24>10.0.0.2 -c:10.244.2.0/23"},
		"of the same age, the first name": {"", []*corev1.Node{node("c", 5, "10.0.0.3", "10.244.2.0/24"), near("10.244.2.0/24")}, "b:10.244.2.0/24>10.0.0.2 -c:10.244.2.0/24"},
		"contained in a later CIDR":       {"", []*corev1.Node{own, near("10.244.2.0/24"), node("c", 1, "10.0.0.3", "10.244.0.0/16")}, "own:10.244.1.0/24 b:10.244.2.0/24>10.0.0.2 -c:10.244.0.0/16"},
		"host network":                    {"", []*corev1.Node{own, near("172.17.3.0/24")}, "own:10.244.1.0/24 -b:172.17.3.0/24"},
		"own CIDR in a host network":      {"", []*corev1.Node{node("a", 0, "10.0.0.1", "172.16.0.0/12")}, "-a:172.16.0.0/12"},
		"loopback":                        {"", []*corev1.Node{near("127.1.0.0/16")}, "-b:127.1.0.0/16"},
		"all of IPv4":                     {"", []*corev1.Node{near("0.0.0.0/0")}, "-b:0.0.0.0/0"},
		"half of IPv4":                    {"", []*corev1.Node{near("128.0.0.0/1")}, "-b:128.0.0.0/1"},
		"link-local":                      {"", []*corev1.Node{near("169.254.0.0/24 fe80::/64")}, "-b:169.254.0.0/24 -b:fe80::/64"},
		"multicast":                       {"", []*corev1.Node{near("239.0.0.0/24 ff02::/64")}, "-b:239.0.0.0/24 -b:ff02::/64"},
		"IPv4 in IPv6":                    {"", []*corev1.Node{near("::ffff:10.244.2.0/120 ::/64")}, "-b:::ffff:10.244.2.0/120 -b:::/64"},
		"too small":                       {"", []*corev1.Node{near("10.244.2.0/31 fd01::/127")}, "-b:10.244.2.0/31 -b:fd01::/127"},
		"just large enough":               {"", []*corev1.Node{near("10.244.2.0/30")}, "b:10.244.2.0/30>10.0.0.2"},
		"not CIDRs":                       {"", []*corev1.Node{near("10.244.2.0 x 10.244.2.0/33 fd01::%eth0/64")}, "-b:10.244.2.0 -b:x -b:10.244.2.0/33 -b:fd01::%eth0/64"},
		"host bits":                       {"", []*corev1.Node{near("10.244.2.77/24")}, "b:10.244.2.0/24>10.0.0.2"},
		"two of one family":               {"", []*corev1.Node{near("10.244.2.0/24 10.244.3.0/24")}, "b:10.244.2.0/24>10.0.0.2 -b:10.244.3.0/24"},
		"the own address":                 {"", []*corev1.Node{own, node("b", 1, "10.0.0.1", "10.244.2.0/24")}, "own:10.244.1.0/24 -b:10.244.2.0/24"},
		"another address of this machine": {"", []*corev1.Node{own, node("b", 1, "172.17.0.1", "10.244.2.0/24")}, "own:10.244.1.0/24 -b:10.244.2.0/24"},
		"the own address of IPv6":         {"", []*corev1.Node{own, node("b", 1, "10.0.0.2 fd00::1", "10.244.2.0/24")}, "own:10.244.1.0/24 -b:10.244.2.0/24"},
		"no CIDR":                         {"", []*corev1.Node{own, node("b", 1, "10.0.0.2", "")}, "own:10.244.1.0/24"},
		"no address":                      {"", []*corev1.Node{own, node("b", 1, "", "10.244.2.0/24")}, "own:10.244.1.0/24"},
		"addresses that mean nothing":     {"", []*corev1.Node{own, node("b", 1, "127.0.0.1 0.0.0.0 224.0.0.1 255.255.255.255 x ::ffff:127.0.0.1", "10.244.2.0/24")}, "own:10.244.1.0/24"},
		"an address as IPv4 in IPv6":      {"", []*corev1.Node{own, node("b", 1, "::ffff:10.0.0.2", "10.244.2.0/24")}, "own:10.244.1.0/24 b:10.244.2.0/24>10.0.0.2"},
		"its own address in its CIDR":     {"", []*corev1.Node{own, node("b", 1, "10.9.0.2", "10.9.0.0/24")}, "own:10.244.1.0/24 -b:10.9.0.0/24"},
		"its address of IPv6 in its CIDR": {"", []*corev1.Node{own, node("b", 1, "10.0.0.2 fd09::2", "10.244.2.0/24 fd09::/64")}, "own:10.244.1.0/24 b:10.244.2.0/24>10.0.0.2 -b:fd09::/64"},
		"the address of an older node":    {"", []*corev1.Node{own, node("b", 5, "10.9.0.2", ""), node("c", 1, "10.0.0.3", "10.9.0.0/24")}, "own:10.244.1.0/24 -c:10.9.0.0/24"},
		"an address in the own CIDR":      {"", []*corev1.Node{own, node("b", 5, "10.244.1.7", "10.244.2.0/24")}, "own:10.244.1.0/24 -b:10.244.2.0/24"},
		"an address in an older CIDR":     {"", []*corev1.Node{own, near("10.244.2.0/24"), node("c", 1, "10.244.2.7", "10.244.3.0/24")}, "own:10.244.1.0/24 b:10.244.2.0/24>10.0.0.2 -c:10.244.3.0/24"},
		"a second address in an older CIDR": {"", []*corev1.Node{
			own, near("fd02::/64"), node("c", 1, "10.0.0.3 fd02::7", "10.244.3.0/24"),
		}, "own:10.244.1.0/24 b~fd02::/64 -c:10.244.3.0/24"},
		"dual stack": {"", []*corev1.Node{
			node("a", 0, "10.0.0.1 fd00::1", "10.244.1.0/24 fd01::/64"), node("b", 1, "10.0.0.2 fd00::2", "10.244.2.0/24 fd02::/64"),
		}, "own:10.244.1.0/24 own:fd01::/64 b:10.244.2.0/24>10.0.0.2 b:fd02::/64>fd00::2"},
		"dual stack, the peer has no IPv6": {"", []*corev1.Node{
			node("a", 0, "10.0.0.1 fd00::1", "10.244.1.0/24 fd01::/64"), node("b", 1, "10.0.0.2", "10.244.2.0/24 fd02::/64"),
		}, "own:10.244.1.0/24 own:fd01::/64 b~10.244.2.0/24 b~fd02::/64"},
		"dual stack, this node's Node has no IPv6": {"", []*corev1.Node{
			node("a", 0, "10.0.0.1", "10.244.1.0/24 fd01::/64"), node("b", 1, "10.0.0.2 fd00::2", "10.244.2.0/24 fd02::/64"),
		}, "own:10.244.1.0/24 own:fd01::/64 b~10.244.2.0/24 b~fd02::/64"},
		"dual stack, IPv6 off the link": {"", []*corev1.Node{
			node("a", 0, "10.0.0.1 fd00::1", "10.244.1.0/24 fd01::/64"), node("b", 1, "10.0.0.2 fd99::2", "10.244.2.0/24 fd02::/64"),
		}, "own:10.244.1.0/24 own:fd01::/64 b~10.244.2.0/24 b~fd02::/64"},
		"dual stack by routes, the peer has no IPv6": {Routed, []*corev1.Node{
			node("a", 0, "10.0.0.1 fd00::1", "10.244.1.0/24 fd01::/64"), node("b", 1, "10.0.0.2", "10.244.2.0/24 fd02::/64"),
		}, "own:10.244.1.0/24 own:fd01::/64 b:10.244.2.0/24>10.0.0.2 b:fd02::/64>invalid IP"},
	} {
		t.Run(name, func(t *testing.T) {
			mode := tc.mode
			if mode == "" {
				mode = Auto
			}
			plan := Decide("a", tc.nodes, machine(), mode)
			if got := summary(&plan); got != tc.want {
				t.Errorf("got  %s\nwant %s\nrefused: %v", got, tc.want, plan.Refused)
			}
			for _, one := range plan.Refused {
				if one.Reason == "" {
					t.Errorf("%s is refused without a reason", one.CIDR)
				}
			}
		})
	}
}

func TestDecideOnIPv6(t *testing.T) {
	host := machine()
	host.Address = netip.MustParseAddr("fd00::1")
	plan := Decide("a", []*corev1.Node{
		node("a", 0, "10.0.0.1 fd00::1", "fd01::/64"), node("b", 1, "10.0.0.2 fd00::2", "fd02::/64 10.244.2.0/24"), node("c", 1, "10.0.0.3", "fd03::/64"),
	}, host, Auto)
	if got, want := summary(&plan), "own:fd01::/64 b:fd02::/64>fd00::2 b:10.244.2.0/24>10.0.0.2"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if plan.MTU != 1430 {
		t.Errorf("the MTU is %d, want 1430", plan.MTU)
	}
}

func TestModes(t *testing.T) {
	for mode, want := range map[Mode]int{Auto: 1450, Tunneled: 1450, Routed: 1500} {
		if plan := Decide("a", nil, machine(), mode); plan.MTU != want || mode.Check() != nil {
			t.Errorf("%s: the MTU is %d, want %d; %v", mode, plan.MTU, want, mode.Check())
		}
	}
	for _, mode := range []Mode{"", "bgp", "Auto"} {
		if mode.Check() == nil {
			t.Errorf("%q is a mode", mode)
		}
	}
}

// TestPods: the CIDRs of all nodes are pods', also where other routers lead to them.
func TestPods(t *testing.T) {
	nodes := []*corev1.Node{
		node("a", 0, "10.0.0.1", "10.244.1.0/24"), node("b", 1, "10.0.0.2", "10.244.2.0/24"), node("c", 1, "10.9.0.3", "10.244.3.0/24"),
	}
	for _, mode := range []Mode{Auto, Routed, Tunneled} {
		plan := Decide("a", nodes, machine(), mode)
		pods := plan.Pods()
		slices.SortFunc(pods, netip.Prefix.Compare)
		if want := prefixes("10.244.1.0/24 10.244.2.0/24 10.244.3.0/24"); !slices.Equal(pods, want) {
			t.Errorf("%s: got %v, want %v", mode, pods, want)
		}
		if plan.Tunnels() != (mode != Routed) {
			t.Errorf("%s: Tunnels returns %v", mode, plan.Tunnels())
		}
	}
}

// TestHardware: both ends of a tunnel know the same addresses, whatever CIDRs each of them refuses.
func TestHardware(t *testing.T) {
	nodes := []*corev1.Node{node("a", 0, "10.0.0.1", "10.244.1.0/24 fd01::/64"), node("b", 0, "10.0.0.2", "172.17.0.0/24 fd02::/64")}
	here, other := machine(), machine()
	other.Address, other.Networks, other.Addresses = netip.MustParseAddr("10.0.0.2"), prefixes("10.0.0.0/24"), nil
	a, b := Decide("a", nodes, here, Tunneled), Decide("b", nodes, other, Tunneled)
	if len(a.Peers) != 1 || len(b.Peers) != 1 || len(a.Peers[0].CIDRs) != 1 || len(b.CIDRs) != 2 {
		t.Fatalf("got %+v and %+v", a, b)
	}
	if a.Peers[0].Hardware.String() != b.Hardware.String() || b.Peers[0].Hardware.String() != a.Hardware.String() {
		t.Errorf("got %v, %v and %v, %v", a.Hardware, a.Peers[0].Hardware, b.Hardware, b.Peers[0].Hardware)
	}
	if first := a.Hardware[0]; first&1 != 0 || first&2 == 0 || len(a.Hardware) != 6 || a.Hardware.String() == b.Hardware.String() {
		t.Errorf("%s and %s are not two local unicast addresses", a.Hardware, b.Hardware)
	}
	again := nodes[0].DeepCopy()
	if again.UID = "another"; tunnelMAC(again).String() == a.Hardware.String() {
		t.Error("another Node of the same name has the same hardware address")
	}
}

func TestMaxPeers(t *testing.T) {
	nodes := []*corev1.Node{node("a", 0, "10.0.0.1", "10.244.1.0/24")}
	for i := range maxPeers + 3 {
		address := netip.AddrFrom4([4]byte{11, 0, byte(i >> 8), byte(i)})
		nodes = append(nodes, node(fmt.Sprint("n", i), maxPeers+10-i, address.String(), fmt.Sprintf("12.%d.%d.0/24", i>>8, i&255)))
	}
	for _, mode := range []Mode{Auto, Routed} {
		plan := Decide("a", nodes, machine(), mode)
		if got := len(plan.Peers) + len(plan.Beyond); got != maxPeers {
			t.Errorf("%s: %d peers", mode, got)
		}
		if len(plan.Refused) != 3 || plan.Refused[0].Node != fmt.Sprint("n", maxPeers) {
			t.Errorf("%s: refused %v", mode, plan.Refused)
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	nodes := []*corev1.Node{node("a", 0, "10.0.0.1", "10.244.1.0/24")}
	for i := range 5000 {
		nodes = append(nodes, node(fmt.Sprint("n", i), i, fmt.Sprintf("11.0.%d.%d", i>>8, i&255), fmt.Sprintf("12.%d.%d.0/24", i>>8, i&255)))
	}
	for b.Loop() {
		Decide("a", nodes, machine(), Auto)
	}
}

// TestDecideHoldsItsPromises: whatever Nodes say, no accepted CIDR overlaps another one, the machine's networks
// or the address of a node that is connected; and the order of the Nodes does not matter.
func TestDecideHoldsItsPromises(t *testing.T) {
	octet, bits := rapid.IntRange(0, 3), rapid.SampledFrom([]int{0, 1, 7, 8, 12, 16, 22, 23, 24, 25, 30, 31, 32})
	address := rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 9).Draw(t, "kind")
		switch {
		case kind == 0:
			return rapid.SampledFrom([]string{"", "x", "127.0.0.1", "::1", "fe80::1%eth0", "172.17.0.1", "10.0.0.255", "::ffff:10.0.0.2"}).Draw(t, "odd")
		case kind < 4:
			return fmt.Sprintf("fd0%d::%d", octet.Draw(t, "a"), octet.Draw(t, "b"))
		}
		return fmt.Sprintf("10.%d.%d.%d", octet.Draw(t, "a"), octet.Draw(t, "b"), octet.Draw(t, "c"))
	})
	cidr := rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 3).Draw(t, "family") == 0 {
			return fmt.Sprintf("fd0%d:%d::/%d", octet.Draw(t, "a"), octet.Draw(t, "b"), rapid.SampledFrom([]int{7, 12, 16, 32, 64, 126, 128}).Draw(t, "bits"))
		}
		first := rapid.SampledFrom([]string{"10", "10", "10", "172", "127", "224", "0"}).Draw(t, "first")
		return fmt.Sprintf("%s.%d.%d.%d/%d", first, octet.Draw(t, "a"), octet.Draw(t, "b"), octet.Draw(t, "c"), bits.Draw(t, "bits"))
	})
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*corev1.Node
		for i := range rapid.IntRange(1, 12).Draw(t, "nodes") {
			addresses, cidrs := rapid.SliceOfN(address, 0, 3).Draw(t, "addresses"), rapid.SliceOfN(cidr, 0, 3).Draw(t, "cidrs")
			nodes = append(nodes, node(string(rune('a'+i)), octet.Draw(t, "age"), strings.Join(addresses, " "), strings.Join(cidrs, " ")))
		}
		mode := rapid.SampledFrom([]Mode{Auto, Routed, Tunneled}).Draw(t, "mode")
		plan := Decide("a", nodes, machine(), mode)
		promises(t, &plan, mode)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)).Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		if again := Decide("a", nodes, machine(), mode); !reflect.DeepEqual(plan, again) {
			t.Fatalf("in another order: %s\n%v\nbefore: %s\n%v", summary(&again), again.Refused, summary(&plan), plan.Refused)
		}
	})
}

func promises(t *rapid.T, plan *Plan, mode Mode) {
	pods, host := plan.Pods(), machine()
	hosts := host.Addresses
	for _, peer := range plan.Peers {
		hosts = append(hosts, peer.Address)
		if peer.Other.IsValid() {
			hosts = append(hosts, peer.Other)
		}
		if slices.Contains(host.Addresses, peer.Address) || slices.Contains(host.Addresses, peer.Other) {
			t.Fatalf("peer %s has an address of this machine", peer.Node)
		}
		if peer.Tunnel && mode == Routed || !peer.Tunnel && (mode == Tunneled || !host.onLink(peer.Address)) {
			t.Fatalf("peer %+v does not fit the mode %s", peer, mode)
		}
	}
	for i, pod := range pods {
		if pod != pod.Masked() || special(pod) {
			t.Fatalf("%s is accepted", pod)
		}
		for _, other := range slices.Concat(pods[:i], host.Networks) {
			if other.Overlaps(pod) {
				t.Fatalf("%s overlaps %s", pod, other)
			}
		}
		for _, address := range hosts {
			if pod.Contains(address) {
				t.Fatalf("%s contains the address %s", pod, address)
			}
		}
	}
}
