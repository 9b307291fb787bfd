package rules

import "slices"

// choice has the endpoints of a Service port that this node uses.
type choice struct {
	// cluster and local are those for traffic policy Cluster and Local.
	cluster, local []endpoint
	// any reports whether there is a usable endpoint on any node.
	any bool
}

// choose selects the endpoints that a port uses: the ready ones, or where there are none those that
// terminate and still serve, separately for each traffic policy. Hints restrict the ready ones of
// policy Cluster.
func choose(endpoints []endpoint, n *Node, p *port) choice {
	var c choice
	if p.usesCluster() {
		reachable := hinted(endpoints, n)
		c.cluster = filter(endpoints, func(e *endpoint) bool { return e.ready && reachable(e) })
		if len(c.cluster) == 0 {
			c.cluster = filter(endpoints, (*endpoint).fading)
		}
		c.any = len(c.cluster) > 0
	}
	if p.usesLocal() {
		c.local = filter(endpoints, func(e *endpoint) bool { return e.local && e.ready })
		if len(c.local) == 0 {
			c.local = filter(endpoints, func(e *endpoint) bool { return e.local && e.fading() })
		}
		c.any = c.any || slices.ContainsFunc(endpoints, func(e endpoint) bool { return e.ready || e.fading() })
	}
	return c
}

// reachable returns all chosen endpoints, each once, sorted.
func (c *choice) reachable() []endpoint {
	all := slices.Concat(c.cluster, c.local)
	slices.SortFunc(all, func(a, b endpoint) int { return a.to.Compare(b.to) })
	return slices.CompactFunc(all, func(a, b endpoint) bool { return a.to == b.to })
}

// fading reports whether an endpoint still serves although it terminates.
func (e *endpoint) fading() bool { return e.serving && e.terminating }

// hinted returns the filter that the topology hints of the ready endpoints ask for: this node, if
// every one has node hints and one has this node; else this zone, by the same rule; else none.
func hinted(endpoints []endpoint, n *Node) func(*endpoint) bool {
	forNode := func(e *endpoint) bool { return slices.Contains(e.nodes, n.Name) }
	forZone := func(e *endpoint) bool { return slices.Contains(e.zones, n.Zone) }
	ready := filter(endpoints, func(e *endpoint) bool { return e.ready })
	every := func(has func(*endpoint) bool) bool { return len(filter(ready, has)) == len(ready) }
	some := func(has func(*endpoint) bool) bool { return len(filter(ready, has)) > 0 }
	switch {
	case every(func(e *endpoint) bool { return len(e.nodes) > 0 }) && some(forNode):
		return forNode
	case every(func(e *endpoint) bool { return len(e.zones) > 0 }) && some(forZone):
		return forZone
	}
	return func(*endpoint) bool { return true }
}

func filter(endpoints []endpoint, keep func(*endpoint) bool) []endpoint {
	var kept []endpoint
	for i := range endpoints {
		if keep(&endpoints[i]) {
			kept = append(kept, endpoints[i])
		}
	}
	return kept
}
