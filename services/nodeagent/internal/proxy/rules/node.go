package rules

import (
	"net/netip"
	"slices"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// Node is what the rules depend on besides Services and EndpointSlices.
type Node struct {
	// Name is the node's name. Endpoints with this nodeName are local.
	Name string
	// Zone is the value of the node's topology.kubernetes.io/zone label; empty when it has none.
	Zone string
	// IPs are the node's own addresses. A load balancer source range with one of them admits the
	// node.
	IPs []netip.Addr
	// PodCIDRs has the ranges of the node's own pods. It tells their traffic from other traffic.
	PodCIDRs []netip.Prefix
	// PodBridge is the interface of the node's pods. It tells their traffic where PodCIDRs has no
	// range of the family.
	PodBridge string
	// ClusterCIDRs has the ranges of all pods. They tell pod traffic where neither of the two above
	// does.
	ClusterCIDRs []netip.Prefix
	// ServiceCIDRs has the ranges of cluster IPs. Traffic to an address in them that no Service has
	// is dropped. Without any it takes its usual way.
	ServiceCIDRs []netip.Prefix
	// NodePortAddresses selects the addresses that accept node ports: each is a CIDR, or "primary" for
	// IPs. A family without a selector has "primary".
	NodePortAddresses []string
	// Present has all addresses of the node's interfaces. Those within a CIDR of NodePortAddresses
	// are selected.
	Present []netip.Addr
}

// NodePortIPs returns the addresses of a family that accept node ports, sorted, each once and never
// loopback. A selected CIDR of length 0 makes every local address accept them: then it reports true,
// and the addresses do not count.
func (n *Node) NodePortIPs(f ruleset.Family) (addrs []netip.Addr, all bool) {
	selected := false
	for _, selector := range n.NodePortAddresses {
		prefix, err := netip.ParsePrefix(selector)
		switch {
		case selector == "primary":
			selected = true
			addrs = append(addrs, n.IPs...)
		case err != nil || !f.Is(prefix.Addr()):
			continue
		case prefix.Bits() == 0:
			return nil, true
		default:
			selected = true
			for _, addr := range n.Present {
				if prefix.Contains(addr.Unmap().WithZone("")) {
					addrs = append(addrs, addr)
				}
			}
		}
	}
	if !selected {
		addrs = append(addrs, n.IPs...)
	}
	for i, addr := range addrs {
		addrs[i] = addr.Unmap().WithZone("")
	}
	addrs = slices.DeleteFunc(addrs, func(addr netip.Addr) bool { return !f.Is(addr) || addr.IsLoopback() })
	slices.SortFunc(addrs, netip.Addr.Compare)
	return slices.Compact(addrs), false
}

// podTraffic returns the matches of a family for traffic from pods: a packet that has any of the
// first matches is from a pod, and one that has all of the second is not. Both are empty when the
// node has nothing to tell it by.
func (n *Node) podTraffic(f ruleset.Family) (from, notFrom []ruleset.Expression) {
	prefixes := ofFamily(f, n.PodCIDRs)
	if len(prefixes) == 0 && n.PodBridge != "" {
		return []ruleset.Expression{ruleset.From{Interface: n.PodBridge}},
			[]ruleset.Expression{ruleset.From{Interface: n.PodBridge, Not: true}}
	}
	if len(prefixes) == 0 {
		prefixes = ofFamily(f, n.ClusterCIDRs)
	}
	for _, prefix := range prefixes {
		from = append(from, ruleset.Within{Prefix: prefix, Source: true})
		notFrom = append(notFrom, ruleset.Within{Prefix: prefix, Source: true, Not: true})
	}
	return from, notFrom
}

func ofFamily(f ruleset.Family, prefixes []netip.Prefix) []netip.Prefix {
	var found []netip.Prefix
	for _, prefix := range prefixes {
		if prefix.IsValid() && f.Is(prefix.Addr()) {
			found = append(found, prefix.Masked())
		}
	}
	return found
}
