package rules

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
)

// Compile returns what a Service contributes to the rules of a family, given its EndpointSlices. The
// unit of a Service that gets no rules has only its Owner. A valid instead replaces the endpoints of
// all ports by this one, which is local and ready; in the other family there are none.
func Compile(
	f ruleset.Family, n *Node, s *corev1.Service, endpointSlices []*discoveryv1.EndpointSlice, instead netip.AddrPort,
) (ruleset.Unit, []Refusal) {
	unit := ruleset.Unit{Owner: types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, Created: s.CreationTimestamp.Time}
	if !Proxied(s) {
		return unit, nil
	}
	var refused refusals
	parsed, ok := parseService(f, s, &refused)
	if !ok {
		return unit, nil
	}
	unit.ClusterIPs, unit.HealthPort = []netip.Addr{parsed.clusterIP}, parsed.healthPort
	var endpoints map[portKey][]endpoint
	if !instead.IsValid() {
		endpoints = gather(f, n, endpointSlices, &refused)
	}
	c := &compilation{family: f, node: n, unit: &unit, seen: make(map[portKey]bool), localReady: make(map[netip.Addr]bool)}
	c.fromPods, _ = n.podTraffic(f)
	for _, spec := range s.Spec.Ports {
		protocol, ok := ruleset.ParseProtocol(spec.Protocol)
		p := &port{service: parsed, key: portKey{spec.Name, protocol}, number: portNumber(spec.Port), nodePort: portNumber(spec.NodePort)}
		if !ok || p.number == 0 || c.seen[p.key] {
			continue
		}
		c.seen[p.key] = true
		found := endpoints[p.key]
		if instead.IsValid() && f.Is(instead.Addr()) {
			found = []endpoint{{to: instead, local: true, ready: true, serving: true}}
		}
		c.add(p, found)
	}
	unit.LocalReady = len(c.localReady)
	return unit, refused
}

// compilation adds the ports of a Service to its unit.
type compilation struct {
	family     ruleset.Family
	node       *Node
	unit       *ruleset.Unit
	fromPods   []ruleset.Expression
	seen       map[portKey]bool
	localReady map[netip.Addr]bool
}

// names has the names of a Service port's chains.
type names struct{ cluster, local, external, firewall string }

func (c *compilation) name(prefix string, p *port, more ...string) string {
	parts := []string{c.unit.Owner.Namespace, c.unit.Owner.Name, p.key.protocol.String(), p.key.name}
	return ruleset.Name(prefix, append(parts, more...)...)
}

func (c *compilation) chain(p *port, name string, rules ...ruleset.Rule) {
	comment := ruleset.Comment(c.unit.Owner.Namespace + "/" + c.unit.Owner.Name + ":" + p.key.name)
	c.unit.Chains = append(c.unit.Chains, ruleset.Chain{Name: name, Rules: rules, Comment: comment}.Sealed(c.family))
}

func (c *compilation) add(p *port, endpoints []endpoint) {
	chosen := choose(endpoints, c.node, p)
	n := names{c.name("service", p), c.name("local", p), c.name("external", p), c.name("firewall", p)}
	c.policyChains(p, n, chosen)
	if chosen.any && p.external() {
		c.externalChain(p, n, chosen)
	}
	frontends := c.claims(p, n, chosen)
	c.hairpins(p, chosen)
	for _, ep := range endpoints {
		if ep.local && ep.ready {
			c.localReady[ep.to.Addr()] = true
		}
	}
	if p.key.protocol == ruleset.UDP {
		d := ruleset.Datagrams{Frontends: frontends}
		for _, ep := range endpoints {
			if ep.serving {
				d.Serving = append(d.Serving, ep.to)
			}
		}
		c.unit.Datagrams = append(c.unit.Datagrams, d)
	}
}

// policyChains adds the chains that send a connection to an endpoint. With session affinity each
// endpoint has a set of the clients that it serves and a chain that adds to it.
func (c *compilation) policyChains(p *port, n names, chosen choice) {
	over := ruleset.Over{Protocol: p.key.protocol}
	affinity := make(map[netip.AddrPort]ruleset.Rule)
	if p.sticky > 0 {
		for _, ep := range chosen.reachable() {
			// The timeout of a set cannot change, so that it is part of the name.
			chain, set := c.name("endpoint", p, ep.to.String()), c.name("affinity", p, ep.to.String(), p.sticky.String())
			c.unit.Sets = append(c.unit.Sets, ruleset.Set{Name: set, Kind: ruleset.Addresses, Timeout: p.sticky})
			c.chain(p, chain, ruleset.Rule{ruleset.Remember{Set: set}}, ruleset.Rule{over, ruleset.Translate{To: []netip.AddrPort{ep.to}}})
			affinity[ep.to] = ruleset.Rule{ruleset.Member{Set: set, Source: true}, ruleset.GotoChain(chain)}
		}
	}
	add := func(name string, endpoints []endpoint) {
		if len(endpoints) == 0 {
			return
		}
		if p.sticky == 0 {
			to := make([]netip.AddrPort, len(endpoints))
			for i, ep := range endpoints {
				to[i] = ep.to
			}
			c.chain(p, name, ruleset.Rule{over, ruleset.Translate{To: to, ID: ruleset.ID(name)}})
			return
		}
		var rules []ruleset.Rule
		var chains []string
		for _, ep := range endpoints {
			rules = append(rules, affinity[ep.to])
			chains = append(chains, c.name("endpoint", p, ep.to.String()))
		}
		c.chain(p, name, append(rules, ruleset.Rule{ruleset.Spread{Chains: chains}})...)
	}
	add(n.cluster, chosen.cluster)
	add(n.local, chosen.local)
}

// externalChain adds the chain of traffic to anything but the cluster IP.
func (c *compilation) externalChain(p *port, n names, chosen choice) {
	if !p.externalLocal {
		// The endpoint may be on another node, which would answer the client by another way.
		c.chain(p, n.external, ruleset.Rule{ruleset.SetMark{}}, ruleset.Rule{ruleset.GotoChain(n.cluster)})
		return
	}
	var rules []ruleset.Rule
	// Pods and the node itself are not subject to policy Local: they get what they would get if the
	// traffic went out to a load balancer and came back.
	for _, fromPods := range c.fromPods {
		rules = append(rules, ruleset.Rule{fromPods, ruleset.GotoChain(n.cluster)})
	}
	rules = append(rules,
		ruleset.Rule{ruleset.Local{Source: true}, ruleset.SetMark{}},
		ruleset.Rule{ruleset.Local{Source: true}, ruleset.GotoChain(n.cluster)})
	if len(chosen.local) > 0 {
		rules = append(rules, ruleset.Rule{ruleset.GotoChain(n.local)})
	}
	c.chain(p, n.external, rules...)
}

// claims adds the claims to the port's frontends, and returns the frontends.
func (c *compilation) claims(p *port, n names, chosen choice) []ruleset.Frontend {
	internal, external := n.cluster, chosen.any
	hasInternal := chosen.any
	if p.internalLocal {
		internal, hasInternal = n.local, len(chosen.local) > 0
	}
	if p.externalLocal {
		external = len(chosen.local) > 0
	}
	absent := ruleset.GotoChain(rejectChain)
	if chosen.any {
		// There are endpoints, but the policy keeps this node from using them: another node may answer.
		absent = ruleset.Verdict{Action: ruleset.Drop}
	}
	var frontends []ruleset.Frontend
	add := func(claim ruleset.Claim, to string, dispatch, served bool) {
		if dispatch {
			claim.Dispatch = ruleset.GotoChain(to)
		}
		if !served {
			claim.Absent = absent
		}
		c.unit.Claims = append(c.unit.Claims, claim)
		frontends = append(frontends, claim.Frontend)
	}
	at := func(addr netip.Addr, number uint16) ruleset.Frontend {
		return ruleset.Frontend{Addr: addr, Protocol: p.key.protocol, Port: number}
	}
	add(ruleset.Claim{Frontend: at(p.clusterIP, p.number)}, internal, hasInternal, hasInternal)
	firewall := len(p.ranges) > 0 && slices.ContainsFunc(p.externals, func(a address) bool { return a.rank == ruleset.LoadBalanced })
	if firewall {
		c.firewallChain(p, n)
	}
	for _, a := range p.externals {
		claim := ruleset.Claim{Frontend: at(a.addr, p.number), Rank: a.rank}
		if firewall && a.rank == ruleset.LoadBalanced {
			claim.Firewall = ruleset.GotoChain(n.firewall)
		}
		add(claim, n.external, chosen.any, external)
	}
	if p.nodePort != 0 {
		add(ruleset.Claim{Frontend: at(netip.Addr{}, p.nodePort)}, n.external, chosen.any, external)
	}
	if chosen.any && !hasInternal {
		c.unit.LacksInternal++
	}
	if chosen.any && !external {
		c.unit.LacksExternal++
	}
	return frontends
}

// firewallChain adds the chain that drops what comes from outside of the source ranges.
func (c *compilation) firewallChain(p *port, n names) {
	admit := ruleset.Verdict{Action: ruleset.Return}
	var rules []ruleset.Rule
	admitsNode := false
	for _, prefix := range p.ranges {
		rules = append(rules, ruleset.Rule{ruleset.Within{Prefix: prefix, Source: true}, admit})
		admitsNode = admitsNode || slices.ContainsFunc(c.node.IPs, prefix.Contains)
	}
	for _, a := range p.externals {
		// Where the load balancer's IP is an address of the node, the node's own requests have it as
		// their source.
		if admitsNode && a.rank == ruleset.LoadBalanced {
			own := netip.PrefixFrom(a.addr, a.addr.BitLen())
			rules = append(rules, ruleset.Rule{ruleset.Within{Prefix: own, Source: true}, admit})
		}
	}
	c.chain(p, n.firewall, append(rules, ruleset.Rule{ruleset.Verdict{Action: ruleset.Drop}})...)
}

// hairpins adds the connections of the port's local endpoints to themselves. Their source is
// masqueraded, or the endpoint would answer itself directly.
func (c *compilation) hairpins(p *port, chosen choice) {
	for _, ep := range chosen.reachable() {
		if ep.local {
			addr := ep.to.Addr()
			c.unit.Hairpins = append(c.unit.Hairpins, ruleset.Key{Source: addr, Addr: addr, Protocol: p.key.protocol, Port: ep.to.Port()})
		}
	}
}
