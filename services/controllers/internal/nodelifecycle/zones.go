package nodelifecycle

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/time/rate"
)

const (
	// unhealthyAtLeast is the number of lost nodes below which a zone with a ready node is healthy
	// (Kubernetes, ComputeZoneState).
	unhealthyAtLeast        = 3
	longestWaitForAdmission = time.Minute
)

// zoneState is the health of a zone as a whole. When many nodes are lost at once, the fault is more
// likely in the control plane or the network than in each node.
type zoneState int

const (
	zoneNormal zoneState = iota
	zonePartial
	zoneFull
)

// zones counts the nodes of each zone and limits how fast pods are driven off them.
type zones struct {
	options Options

	mu       sync.Mutex
	nodes    map[string]member
	states   map[string]zoneState
	limiters map[string]*rate.Limiter
	admitted map[string]bool // nodes that may be given up, until they are ready again
	down     bool
}

type member struct {
	zone  string
	ready bool
}

func newZones(o Options) *zones {
	return &zones{
		options: o,
		nodes:   map[string]member{}, states: map[string]zoneState{}, limiters: map[string]*rate.Limiter{}, admitted: map[string]bool{},
	}
}

func zoneOf(node *corev1.Node) string {
	return node.Labels[corev1.LabelTopologyRegion] + ":\x00:" + node.Labels[corev1.LabelTopologyZone]
}

// set records a node's readiness, and reports whether the state of its zone, or of all zones, has
// changed.
func (z *zones) set(node *corev1.Node, ready bool) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.nodes[node.Name] = member{zone: zoneOf(node), ready: ready}
	if ready {
		delete(z.admitted, node.Name)
	}
	return z.refresh()
}

// remove forgets a node, and reports whether the state of its zone, or of all zones, has changed.
func (z *zones) remove(node string) bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	delete(z.nodes, node)
	delete(z.admitted, node)
	return z.refresh()
}

func (z *zones) refresh() bool {
	ready, lost := map[string]int{}, map[string]int{}
	for _, m := range z.nodes {
		if m.ready {
			ready[m.zone]++
			lost[m.zone] += 0
		} else {
			lost[m.zone]++
		}
	}
	changed, down := false, len(lost) > 0
	states := make(map[string]zoneState, len(lost))
	for zone := range lost {
		state := z.options.stateOf(ready[zone], lost[zone])
		states[zone] = state
		down = down && state == zoneFull
		if before, known := z.states[zone]; !known || before != state {
			changed = changed || known
			z.limiter(zone).SetLimit(z.options.limitOf(state, ready[zone]+lost[zone]))
		}
	}
	changed = changed || down != z.down
	z.states, z.down = states, down
	return changed
}

// stateOf returns the state of a zone with these numbers of nodes (Kubernetes, ComputeZoneState).
func (o Options) stateOf(ready, lost int) zoneState {
	switch {
	case ready == 0 && lost > 0:
		return zoneFull
	case lost >= unhealthyAtLeast && float64(lost)/float64(ready+lost) >= o.UnhealthyShare:
		return zonePartial
	default:
		return zoneNormal
	}
}

func (o Options) limitOf(state zoneState, size int) rate.Limit {
	if state != zonePartial {
		return rate.Limit(o.EvictionRate)
	}
	if size > o.LargeZone {
		return rate.Limit(o.SecondaryEvictionRate)
	}
	return 0
}

func (z *zones) limiter(zone string) *rate.Limiter {
	if z.limiters[zone] == nil {
		z.limiters[zone] = rate.NewLimiter(rate.Limit(z.options.EvictionRate), 1)
	}
	return z.limiters[zone]
}

// allDown reports whether no zone has a ready node. In that case no node could take the pods, and
// most likely the control plane is cut off: no pod is driven off.
func (z *zones) allDown() bool {
	z.mu.Lock()
	defer z.mu.Unlock()
	return z.down
}

// admit reports whether a node may be given up now; if not, wait is the delay before the next try.
func (z *zones) admit(node *corev1.Node, now time.Time) (admitted bool, wait time.Duration) {
	z.mu.Lock()
	defer z.mu.Unlock()
	if z.admitted[node.Name] {
		return true, 0 // The write that was to follow has failed: it must not cost another token.
	}
	limiter := z.limiter(zoneOf(node))
	if limiter.Limit() <= 0 {
		return false, longestWaitForAdmission
	}
	if limiter.AllowN(now, 1) {
		z.admitted[node.Name] = true
		return true, 0
	}
	missing := 1 - limiter.TokensAt(now)
	wait = time.Duration(missing / float64(limiter.Limit()) * float64(time.Second))
	return false, min(max(wait, time.Second), longestWaitForAdmission)
}
