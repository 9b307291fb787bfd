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
	// Tunnel says that its packets travel in VXLAN.
	Tunnel bool
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
	// MTU is that of the pods' interfaces, in bytes.
	MTU int
	// Peers are ordered by name.
	Peers []Peer
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
	return all
}

// Decide returns the plan for the node with a name, given all Nodes. It reads nothing else.
func Decide(name string, nodes []*corev1.Node, host Host, mode Mode) Plan {
	d := decision{host: host, taken: map[netip.Prefix]string{}}
	plan := Plan{MTU: host.MTU}
	if mode != Routed {
		plan.MTU -= overhead(host.Address)
	}
	// The node's own CIDRs come first; otherwise the oldest Node keeps a CIDR that two have.
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int {
		return cmp.Or(-boolean(a.Name == name)+boolean(b.Name == name), a.CreationTimestamp.Compare(b.CreationTimestamp.Time),
			cmp.Compare(a.Name, b.Name))
	})
	d.addresses(name, nodes)
	for _, node := range nodes {
		if node.Name == name {
			plan.CIDRs = d.cidrs(node)
			continue
		}
		address, ok := addressOf(node, host.Address)
		if len(node.Spec.PodCIDRs) == 0 || !ok {
			continue
		}
		if address == host.Address {
			d.refuse(node, node.Spec.PodCIDRs[0], "the node has the address of this one")
			continue
		}
		if len(plan.Peers) == maxPeers {
			d.refuse(node, node.Spec.PodCIDRs[0], fmt.Sprintf("a node connects to %d others at most", maxPeers))
			continue
		}
		cidrs := d.cidrs(node)
		if len(cidrs) == 0 {
			continue
		}
		peer := Peer{Node: node.Name, Address: address, CIDRs: cidrs}
		routed := host.onLink(address)
		if other, ok := addressOf(node, another(address)); ok && host.onLink(other) {
			peer.Other = other
		}
		if mode == Routed && !routed {
			continue // The network's routers know the way.
		}
		peer.Tunnel = mode == Tunneled || mode == Auto && (!routed || !peer.reachesAll())
		plan.Peers = append(plan.Peers, peer)
	}
	slices.SortFunc(plan.Peers, func(a, b Peer) int { return cmp.Compare(a.Node, b.Node) })
	plan.Refused = d.refused
	return plan
}

// decision is the making of a plan.
type decision struct {
	host    Host
	hosts   []netip.Addr            // addresses of nodes
	taken   map[netip.Prefix]string // CIDRs by the node that has them
	refused []Refusal
}

func (d *decision) refuse(node *corev1.Node, cidr, reason string) {
	d.refused = append(d.refused, Refusal{Node: node.Name, CIDR: cidr, Reason: reason})
}

// addresses notes the nodes' addresses, which no CIDR may contain.
func (d *decision) addresses(name string, nodes []*corev1.Node) {
	d.hosts = append(d.hosts, d.host.Address)
	for _, node := range nodes {
		if address, ok := addressOf(node, d.host.Address); ok && node.Name != name {
			d.hosts = append(d.hosts, address)
		}
	}
}

// cidrs returns those CIDRs of a node that can be used, at most one of each family.
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
		usable, d.taken[prefix] = append(usable, prefix), node.Name
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
	for _, address := range d.hosts {
		if prefix.Contains(address) {
			return prefix, fmt.Sprintf("it contains %s, the address of a node", address)
		}
	}
	for other, node := range d.taken {
		if other.Overlaps(prefix) {
			return prefix, fmt.Sprintf("it overlaps %s of node %s", other, node)
		}
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
		if err == nil && parsed.Zone() == "" && parsed.Unmap().Is4() == like.Is4() && !parsed.IsLoopback() && !parsed.IsMulticast() && !parsed.IsUnspecified() {
			return parsed.Unmap(), true
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

// tunnelMAC returns the hardware address of a node's end of the tunnels. All nodes derive it from the node's
// CIDRs, so that they need not exchange it. It is a locally administered address.
func tunnelMAC(cidrs []netip.Prefix) net.HardwareAddr {
	sum := sha256.Sum256([]byte(fmt.Sprint(cidrs[:min(len(cidrs), 1)])))
	return net.HardwareAddr(append([]byte{0x02}, sum[:5]...))
}
