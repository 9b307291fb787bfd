package ruleset

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Kind says which fields of a packet, and of a Key, make up the key of a set.
type Kind uint8

// The kinds of keys.
const (
	// Addresses has one address: the destination, or the source where an expression says so.
	Addresses Kind = iota
	// Services has the destination's address, protocol and port.
	Services
	// Ports has the destination's protocol and port.
	Ports
	// Connections has the source, then the destination's address, protocol and port.
	Connections
	// Choices has no field of the packet, but the ID of a chain and the number of one of its choices.
	// Sets of this kind are maps to an endpoint.
	Choices
	// Ranges has the destination's address. Two elements describe a range: the one of its first address
	// with Index 0, and that of the address after its last one with Index 1. Ranges neither overlap nor touch.
	Ranges
)

// The shared sets and maps of a table.
const (
	// ClusterIPs has every cluster IP.
	ClusterIPs = "cluster-ips"
	// NodePortIPs has the node's addresses that accept node ports. It is absent where all do.
	NodePortIPs = "nodeport-ips"
	// ServiceIPs maps the cluster, external and load balancer IPs to a Service port's chain.
	ServiceIPs = "service-ips"
	// ServiceNodePorts maps node ports to a Service port's chain.
	ServiceNodePorts = "service-nodeports"
	// AbsentIPs maps the IPs of Service ports without usable endpoints to their refusal.
	AbsentIPs = "absent-ips"
	// AbsentNodePorts maps the node ports without usable endpoints to their refusal.
	AbsentNodePorts = "absent-nodeports"
	// FirewallIPs maps the load balancer IPs that accept only some sources to a firewall chain.
	FirewallIPs = "firewall-ips"
	// Hairpins has the connections of local endpoints to themselves.
	Hairpins = "hairpins"
)

// PodRanges is the set of the ranges of pods, in the table of the pod network.
const PodRanges = "pods"

// The maps that have the choices of the chains that send connections to one of several endpoints. For
// each new set, the kernel walks all sets of the table, and for each new element of a map all rules
// that use the map. So there is neither one map for each chain nor one for all, but a fixed number.
const (
	endpointsPrefix = "endpoints-"
	endpointsMaps   = 128
)

// EndpointsMap returns the name of the map that has the choices of the chain with an ID.
func EndpointsMap(id uint64) string { return endpointsPrefix + strconv.Itoa(int(id%endpointsMaps)) }

// HasEndpoints reports whether a set is a map of endpoints by its name.
func HasEndpoints(set string) bool { return strings.HasPrefix(set, endpointsPrefix) }

// Set is a named set, a map to verdicts, or one to endpoints.
type Set struct {
	Name string
	Kind Kind
	// Verdicts is true for a map to verdicts.
	Verdicts bool
	// Timeout is how long an address that a packet added stays. Above 0 it makes the set dynamic.
	Timeout time.Duration
}

// Shared returns the sets and maps that every table has. NodePortIPs is not among them.
func Shared() []Set {
	sets := []Set{
		{Name: ClusterIPs, Kind: Addresses}, {Name: Hairpins, Kind: Connections},
		{Name: ServiceIPs, Kind: Services, Verdicts: true}, {Name: ServiceNodePorts, Kind: Ports, Verdicts: true},
		{Name: AbsentIPs, Kind: Services, Verdicts: true}, {Name: AbsentNodePorts, Kind: Ports, Verdicts: true},
		{Name: FirewallIPs, Kind: Services, Verdicts: true},
	}
	for i := range uint64(endpointsMaps) {
		sets = append(sets, Set{Name: EndpointsMap(i), Kind: Choices})
	}
	return sets
}

// Key is the key of an element. Its Kind says which fields count; the others are zero.
type Key struct {
	Source   netip.Addr
	Addr     netip.Addr
	Protocol Protocol
	Port     uint16
	// Index is the number of a choice of the chain with this ID, or tells the two ends of a range apart.
	Index uint32
	ID    uint64
}

// Value is what a map has for a key: a verdict, or an endpoint. In a set it is zero.
type Value struct {
	Verdict Verdict
	To      netip.AddrPort
}

// Slot is the place of an element: one key of one set.
type Slot struct {
	Set string
	Key Key
}

// Element is an element of a set or of a map.
type Element struct {
	Slot
	Value Value
}

// Text returns the key in nft's syntax.
func (k Kind) Text(key Key) string {
	switch k {
	case Addresses:
		return key.Addr.String()
	case Ranges:
		return fmt.Sprintf("%s end %d", key.Addr, key.Index)
	case Services:
		return fmt.Sprintf("%s . %s . %d", key.Addr, key.Protocol, key.Port)
	case Ports:
		return fmt.Sprintf("%s . %d", key.Protocol, key.Port)
	case Choices:
		return fmt.Sprintf("%#x . %#x . %d", uint32(key.ID>>32), uint32(key.ID), key.Index)
	}
	return fmt.Sprintf("%s . %s . %s . %d", key.Source, key.Addr, key.Protocol, key.Port)
}

// packet returns the expression that selects the key of this kind from a packet.
func (k Kind) packet(f Family) string {
	switch k {
	case Addresses, Ranges:
		return f.ip() + " daddr"
	case Services:
		return f.ip() + " daddr . meta l4proto . th dport"
	case Ports:
		return "meta l4proto . th dport"
	}
	return f.ip() + " saddr . " + f.ip() + " daddr . meta l4proto . th dport"
}

// Type returns the type of the set in nft's syntax.
func (s Set) Type(f Family) string {
	address := "ipv4_addr"
	if f == IPv6 {
		address = "ipv6_addr"
	}
	var parts []string
	switch s.Kind {
	case Addresses, Ranges:
		parts = []string{address}
	case Services:
		parts = []string{address, "inet_proto", "inet_service"}
	case Ports:
		parts = []string{"inet_proto", "inet_service"}
	case Connections:
		parts = []string{address, address, "inet_proto", "inet_service"}
	case Choices:
		return "mark . mark . mark : " + address + " . inet_service"
	}
	key := strings.Join(parts, " . ")
	if s.Verdicts {
		return key + " : verdict"
	}
	return key
}
