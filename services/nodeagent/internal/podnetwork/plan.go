package podnetwork

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"net"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Mode is how packets reach the pods of other nodes.
type Mode string

const (
	// Auto uses routes for nodes on the same link and VXLAN for the others.
	Auto Mode = "auto"
	// Routed uses routes only: nodes that are not on the same link are left to the network's own routers.
	Routed Mode = "routes"
	// Tunneled uses VXLAN for all nodes.
	Tunneled Mode = "vxlan"
)

// Check returns an error if m is not a mode.
func (m Mode) Check() error {
	switch m {
	case Auto, Routed, Tunneled:
		return nil
	}
	return fmt.Errorf("%q is not a mode of the pod network: want %s, %s or %s", string(m), Auto, Routed, Tunneled)
}

// Room that VXLAN takes in a packet, for a tunnel between IPv4 and IPv6 addresses.
const (
	overhead4 = 50
	overhead6 = 70
)

// maxPeers bounds the nodes that a node connects to.
const maxPeers = 10000

// Host is the state of the machine that a plan depends on.
type Host struct {
	// Address is the node's address, Interface the network interface that has it, and MTU that interface's.
	Address   netip.Addr
	Interface string
	MTU       int
	// Links are the networks of Interface, on which other nodes need no router.
	Links []netip.Prefix
	// Networks are those of all interfaces but the pods' own. No pod CIDR may overlap them.
	Networks []netip.Prefix
	// Addresses are those of the same interfaces. No other node may have them.
	Addresses []netip.Addr
}

// onLink reports whether an address needs no router.
func (h *Host) onLink(address netip.Addr) bool {
	return slices.ContainsFunc(h.Links, func(link netip.Prefix) bool { return link.Contains(address) })
}

// Peer is another node.
type Peer struct {
	Node string
	// Address has the family of this node's address. Other is the node's address of the other family; not
	// valid if it has none on this link.
	Address, Other netip.Addr
	CIDRs          []netip.Prefix
	// Tunnel says that its packets travel in VXLAN, Hardware is the hardware address of its end.
	Tunnel   bool
	Hardware net.HardwareAddr
}

// via returns the address of the peer that is the gateway to one of its CIDRs; not valid if there is none.
func (p *Peer) via(cidr netip.Prefix) netip.Addr {
	if cidr.Addr().Is4() == p.Address.Is4() {
		return p.Address
	}
	return p.Other
}

// reachesAll reports whether plain routes can lead to all CIDRs of the peer.
func (p *Peer) reachesAll() bool {
	return !slices.ContainsFunc(p.CIDRs, func(cidr netip.Prefix) bool { return !p.via(cidr).IsValid() })
}

// Plan is the state that the node's network should be in.
type Plan struct {
	// CIDRs are the node's own, at most one of each family. Without any the node has no pod network.
	CIDRs []netip.Prefix
	// Hardware is the hardware address of the node's end of the tunnels.
	Hardware net.HardwareAddr
	// MTU is that of the pods' interfaces, in bytes.
	MTU int
	// Peers are the nodes that this one leads packets to, ordered by name.
	Peers []Peer
	// Beyond are the CIDRs of those nodes that the network's own routers lead to.
	Beyond []netip.Prefix
	// Refused are the CIDRs that are not used, and why.
	Refused []Refusal
}

// Refusal is a pod CIDR that cannot be used.
type Refusal struct {
	Node, CIDR, Reason string
}

// Tunnels reports whether the plan needs a VXLAN device.
func (p *Plan) Tunnels() bool {
	return slices.ContainsFunc(p.Peers, func(peer Peer) bool { return peer.Tunnel })
}

// Pods returns the CIDRs of all nodes.
func (p *Plan) Pods() []netip.Prefix {
	all := slices.Clone(p.CIDRs)
	for _, peer := range p.Peers {
		all = append(all, peer.CIDRs...)
	}
	return append(all, p.Beyond...)
}

// Decide returns the plan for the node with a name, given all Nodes. It reads nothing else.
//
// This node comes first, then the others by age: of two that exclude each other, by a CIDR or an address, the
// later one is refused. So a node that claims what others have harms itself alone.
func Decide(name string, nodes []*corev1.Node, host Host, mode Mode) Plan {
	d := decision{host: host, mode: mode}
	plan := &d.plan
	plan.MTU = host.MTU
	if mode != Routed {
		plan.MTU -= overhead(host.Address)
	}
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(-boolean(a.Name == name)+boolean(b.Name == name), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name))
	})
	d.claim(host.Address)
	for _, node := range nodes {
		if node.Name == name {
			d.own(node)
		} else {
			d.peer(node)
		}
	}
	slices.SortFunc(plan.Peers, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	slices.SortFunc(plan.Beyond, netip.Prefix.Compare)
	return *plan
}

// decision is the making of a plan.
type decision struct {
	host Host
	mode Mode
	plan Plan
	// dual says that the node has an address of the other family on the link, by its Node, too: otherwise the
	// other nodes do not know it, and do not expect routed packets of that family.
	dual bool
	// hosts are the addresses of nodes, and taken the CIDRs with the nodes that have them, in order.
	hosts []netip.Addr
	taken []claim
}

type claim struct {
	cidr netip.Prefix
	node string
}

func (d *decision) refuse(node *corev1.Node, cidr, reason string) {
	d.plan.Refused = append(d.plan.Refused, Refusal{Node: node.Name, CIDR: cidr, Reason: reason})
}

// own notes this node.
func (d *decision) own(node *corev1.Node) {
	d.plan.Hardware = tunnelMAC(node)
	if other, ok := addressOf(node, another(d.host.Address)); ok {
		d.dual = d.host.onLink(other)
		d.claim(other)
	}
	d.plan.CIDRs = d.cidrs(node)
}

// peer notes another node.
func (d *decision) peer(node *corev1.Node) {
	address, ok := addressOf(node, d.host.Address)
	if !ok {
		return
	}
	other, dual := addressOf(node, another(address))
	reason := d.unusable(address)
	if reason == "" && dual {
		reason = d.unusable(other)
	}
	if reason == "" && len(d.plan.Peers)+len(d.plan.Beyond) >= maxPeers {
		reason = fmt.Sprintf("a node connects to %d others at most", maxPeers)
	}
	if reason != "" {
		if len(node.Spec.PodCIDRs) > 0 {
			d.refuse(node, node.Spec.PodCIDRs[0], reason)
		}
		return
	}
	d.claim(address)
	if dual {
		d.claim(other)
	}
	peer := Peer{Node: node.Name, Address: address, CIDRs: d.cidrs(node), Hardware: tunnelMAC(node)}
	if len(peer.CIDRs) == 0 {
		return
	}
	if dual && d.dual && d.host.onLink(other) {
		peer.Other = other
	}
	routed := d.host.onLink(address)
	if d.mode == Routed && !routed {
		d.plan.Beyond = append(d.plan.Beyond, peer.CIDRs...)
		return
	}
	peer.Tunnel = d.mode == Tunneled || d.mode == Auto && (!routed || !peer.reachesAll())
	d.plan.Peers = append(d.plan.Peers, peer)
}

// claim notes the address of a node, which no later CIDR may contain.
func (d *decision) claim(address netip.Addr) {
	i, found := slices.BinarySearchFunc(d.hosts, address, netip.Addr.Compare)
	if !found {
		d.hosts = slices.Insert(d.hosts, i, address)
	}
}

// unusable returns the reason why another node cannot have an address; empty if it can.
func (d *decision) unusable(address netip.Addr) string {
	if address == d.host.Address || slices.Contains(d.host.Addresses, address) {
		return "the node has an address of this one"
	}
	if at, ok := d.overlapping(netip.PrefixFrom(address, address.BitLen())); ok {
		return fmt.Sprintf("the node's address is in %s of node %s", at.cidr, at.node)
	}
	return ""
}

// overlapping returns a taken CIDR that overlaps a prefix. No two taken ones overlap: it is the one that begins
// before the prefix, or the first that begins in it.
func (d *decision) overlapping(prefix netip.Prefix) (claim, bool) {
	i := d.place(prefix)
	for _, one := range d.taken[max(i-1, 0):min(i+1, len(d.taken))] {
		if one.cidr.Overlaps(prefix) {
			return one, true
		}
	}
	return claim{}, false
}

// place returns the index of the first taken CIDR that does not begin before a prefix.
func (d *decision) place(prefix netip.Prefix) int {
	i, _ := slices.BinarySearchFunc(d.taken, prefix.Addr(), func(one claim, address netip.Addr) int {
		return one.cidr.Addr().Compare(address)
	})
	return i
}

// cidrs takes those CIDRs of a node that can be used, at most one of each family, and returns them.
func (d *decision) cidrs(node *corev1.Node) []netip.Prefix {
	var usable []netip.Prefix
	for _, text := range node.Spec.PodCIDRs {
		prefix, reason := d.usable(text)
		if reason == "" && slices.ContainsFunc(usable, func(other netip.Prefix) bool { return other.Addr().Is4() == prefix.Addr().Is4() }) {
			reason = "the node has another CIDR of this IP family"
		}
		if reason != "" {
			d.refuse(node, text, reason)
			continue
		}
		usable, d.taken = append(usable, prefix), slices.Insert(d.taken, d.place(prefix), claim{prefix, node.Name})
	}
	return usable
}

// usable returns the prefix of a CIDR, or the reason why it cannot be used.
func (d *decision) usable(text string) (prefix netip.Prefix, reason string) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return prefix, "it is not a CIDR"
	}
	prefix = prefix.Masked()
	switch addr := prefix.Addr(); {
	case addr.Is4In6(), prefix.Bits() < 8, prefix.Bits() > addr.BitLen()-2:
		return prefix, "its size is not usable for pods"
	case special(prefix):
		return prefix, "it overlaps loopback, link-local or multicast addresses"
	}
	for _, network := range d.host.Networks {
		if network.Bits() > 0 && network.Overlaps(prefix) {
			return prefix, fmt.Sprintf("it overlaps %s, a network of this machine", network)
		}
	}
	if i, _ := slices.BinarySearchFunc(d.hosts, prefix.Addr(), netip.Addr.Compare); i < len(d.hosts) && prefix.Contains(d.hosts[i]) {
		return prefix, fmt.Sprintf("it contains %s, the address of a node", d.hosts[i])
	}
	if at, ok := d.overlapping(prefix); ok {
		return prefix, fmt.Sprintf("it overlaps %s of node %s", at.cidr, at.node)
	}
	return prefix, ""
}

// special reports whether a prefix overlaps addresses that are never routed.
func special(prefix netip.Prefix) bool {
	return slices.ContainsFunc([]string{"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "::/8", "fe80::/10", "ff00::/8"},
		func(reserved string) bool { return netip.MustParsePrefix(reserved).Overlaps(prefix) })
}

// addressOf returns a node's internal address of the family of another address.
func addressOf(node *corev1.Node, like netip.Addr) (netip.Addr, bool) {
	for _, address := range node.Status.Addresses {
		if address.Type != corev1.NodeInternalIP {
			continue
		}
		parsed, err := netip.ParseAddr(address.Address)
		if err != nil || parsed.Zone() != "" {
			continue
		}
		parsed = parsed.Unmap()
		if parsed.Is4() == like.Is4() && (parsed.IsGlobalUnicast() || parsed.IsLinkLocalUnicast()) {
			return parsed, true
		}
	}
	return netip.Addr{}, false
}

// another returns some address of the other family.
func another(address netip.Addr) netip.Addr {
	if address.Is4() {
		return netip.IPv6Unspecified()
	}
	return netip.IPv4Unspecified()
}

func overhead(address netip.Addr) int {
	if address.Is4() {
		return overhead4
	}
	return overhead6
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tunnelMAC returns the hardware address of a node's end of the tunnels. All nodes derive it from the Node's
// name and UID, so that they need not exchange it. Since the API chooses the UID, a node cannot choose the
// hardware address of another one. It is a locally administered address.
func tunnelMAC(node *corev1.Node) net.HardwareAddr {
	sum := sha256.Sum256([]byte(string(node.UID) + "/" + node.Name))
	return net.HardwareAddr(append([]byte{0x02}, sum[:5]...))
}
