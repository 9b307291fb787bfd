package rules

import (
	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// The chains that all Services share. The base chains are named by type and hook.
const (
	firewallChain    = "check-firewall"
	servicesChain    = "services"
	absentIPsChain   = "check-absent-ips"
	absentPortsChain = "check-absent-nodeports"
	clusterIPsChain  = "check-cluster-ips"
	rejectChain      = "refuse"
	masqueradeChain  = "masquerading"
)

// The kernel's priorities of hooks.
const (
	priorityDNAT   = -100
	priorityFilter = 0
	prioritySNAT   = 100
	// priorityFirewall comes before destinations are translated.
	priorityFirewall = priorityDNAT - 10
)

// Skeleton returns the sets, the chains and the elements of a family that do not depend on Services.
func Skeleton(f ruleset.Family, n *Node) ([]ruleset.Set, []ruleset.Chain, []ruleset.Element) {
	sets := ruleset.Shared()
	var elements []ruleset.Element
	if addrs, all := n.NodePortIPs(f); !all {
		sets = append(sets, ruleset.Set{Name: ruleset.NodePortIPs, Kind: ruleset.Addresses})
		for _, addr := range addrs {
			elements = append(elements, ruleset.Element{Slot: ruleset.Slot{Set: ruleset.NodePortIPs, Key: ruleset.Key{Addr: addr}}})
		}
	}
	chains := append(baseChains(), sharedChains(f, n)...)
	for i, chain := range chains {
		chains[i] = chain.Sealed(f)
	}
	return sets, chains, elements
}

// baseChains returns the chains at the kernel's hooks. A refusal is not possible in prerouting on
// every kernel, so that absent endpoints are found in the filter hooks.
func baseChains() []ruleset.Chain {
	jump := func(chain string) ruleset.Verdict { return ruleset.Verdict{Action: ruleset.Jump, Chain: chain} }
	first := func(chain string) ruleset.Rule { return ruleset.Rule{ruleset.New{}, jump(chain)} }
	base := func(name, kind string, hook ruleset.Hook, priority int32, rules ...ruleset.Rule) ruleset.Chain {
		return ruleset.Chain{Name: name, Base: &ruleset.Base{Type: kind, Hook: hook, Priority: priority}, Rules: rules}
	}
	return []ruleset.Chain{
		base("before-prerouting", "filter", ruleset.Prerouting, priorityFirewall, first(firewallChain)),
		base("before-output", "filter", ruleset.Output, priorityFirewall, first(firewallChain)),
		base("filter-input", "filter", ruleset.Input, priorityFilter, first(absentPortsChain), first(absentIPsChain)),
		base("filter-forward", "filter", ruleset.Forward, priorityFilter, first(absentIPsChain), first(clusterIPsChain)),
		base("filter-output", "filter", ruleset.Output, priorityFilter, first(absentIPsChain), first(clusterIPsChain)),
		base("nat-prerouting", "nat", ruleset.Prerouting, priorityDNAT, ruleset.Rule{jump(servicesChain)}),
		base("nat-output", "nat", ruleset.Output, priorityDNAT, ruleset.Rule{jump(servicesChain)}),
		base("nat-postrouting", "nat", ruleset.Postrouting, prioritySNAT, ruleset.Rule{jump(masqueradeChain)}),
	}
}

// sharedChains returns the chains that the base chains jump to.
func sharedChains(f ruleset.Family, n *Node) []ruleset.Chain {
	toClusterIP := ruleset.Member{Set: ruleset.ClusterIPs, Kind: ruleset.Addresses}
	refuse := []ruleset.Rule{{toClusterIP, ruleset.Reject{}}}
	for _, prefix := range ofFamily(f, n.ServiceCIDRs) {
		refuse = append(refuse, ruleset.Rule{ruleset.Within{Prefix: prefix}, ruleset.Verdict{Action: ruleset.Drop}})
	}
	// A route of the Service range to this node makes it an entrance of the cluster: what comes in by
	// it must come back the same way. Without a means to tell, all traffic is treated so.
	_, notPods := n.podTraffic(f)
	entrance := append(ruleset.Rule{toClusterIP}, notPods...)
	_, all := n.NodePortIPs(f)
	nodePorts := func(vmap string) ruleset.Rule {
		lookup := ruleset.Lookup{Map: vmap, Kind: ruleset.Ports}
		if all {
			return ruleset.Rule{ruleset.Local{}, ruleset.Within{Prefix: f.Loopback(), Not: true}, lookup}
		}
		return ruleset.Rule{ruleset.Member{Set: ruleset.NodePortIPs, Kind: ruleset.Addresses}, lookup}
	}
	lookup := func(vmap string) ruleset.Rule {
		return ruleset.Rule{ruleset.Lookup{Map: vmap, Kind: ruleset.Services}}
	}
	return []ruleset.Chain{
		{Name: rejectChain, Rules: []ruleset.Rule{{ruleset.Reject{}}}},
		{Name: firewallChain, Rules: []ruleset.Rule{lookup(ruleset.FirewallIPs)}},
		{Name: absentIPsChain, Rules: []ruleset.Rule{lookup(ruleset.AbsentIPs)}},
		{Name: absentPortsChain, Rules: []ruleset.Rule{nodePorts(ruleset.AbsentNodePorts)}},
		{Name: clusterIPsChain, Rules: refuse},
		{Name: servicesChain, Rules: []ruleset.Rule{
			append(entrance, ruleset.SetMark{}), lookup(ruleset.ServiceIPs), nodePorts(ruleset.ServiceNodePorts),
		}},
		{Name: masqueradeChain, Rules: []ruleset.Rule{
			{ruleset.Marked{}, ruleset.ClearMark{}, ruleset.Masquerade{}},
			{ruleset.Translated{}, ruleset.Member{Set: ruleset.Hairpins, Kind: ruleset.Connections}, ruleset.Masquerade{}},
		}},
	}
}
