package proxy

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/conntrack"
)

// flowsPeriod is the least time between two searches for stale connections, each of which reads all
// connections of the node.
const flowsPeriod = time.Second

// flows ends the UDP connections to endpoints that are gone. It is not safe for concurrent use.
type flows struct {
	tracking Flows
	metrics  *metrics
	// owners has the Services whose UDP ports changed, with the frontends that they no longer have.
	owners map[ruleset.Family]map[types.NamespacedName][]ruleset.Frontend
	last   time.Time
}

func newFlows(tracking Flows, m *metrics) *flows {
	return &flows{tracking: tracking, metrics: m, owners: make(map[ruleset.Family]map[types.NamespacedName][]ruleset.Frontend)}
}

// changed records the change of a Service. before is nil for a new one.
func (f *flows) changed(family ruleset.Family, before, after *ruleset.Unit) {
	if same(before, after) {
		return
	}
	if f.owners[family] == nil {
		f.owners[family] = make(map[types.NamespacedName][]ruleset.Frontend)
	}
	gone := f.owners[family][after.Owner]
	if before != nil {
		for _, d := range before.Datagrams {
			gone = append(gone, d.Frontends...)
		}
	}
	f.owners[family][after.Owner] = slices.Compact(gone)
}

// due returns when end has something to do; never if it reports false.
func (f *flows) due() (time.Time, bool) { return f.last.Add(flowsPeriod), len(f.owners) > 0 }

// end ends the stale connections of the Services that changed, once their rules are written.
func (f *flows) end(p *Proxy) {
	if len(f.owners) == 0 || time.Since(f.last) < flowsPeriod {
		return
	}
	f.last = time.Now()
	for _, t := range p.tables {
		owners, ok := f.owners[t.family]
		if !ok || t.broken {
			continue
		}
		delete(f.owners, t.family)
		var datagrams, current []ruleset.Datagrams
		for owner, gone := range owners {
			datagrams = append(datagrams, ruleset.Datagrams{Frontends: gone})
			if unit := t.wanted.Unit(owner); unit != nil {
				current = append(current, unit.Datagrams...)
			}
		}
		// A frontend that has an endpoint again comes later, and so counts.
		stale := conntrack.NewStale(append(datagrams, current...), p.ownAddresses(t.family))
		start := time.Now()
		n, err := f.tracking.End(t.family, stale)
		if err != nil {
			t.logger.Error("UDP connections to endpoints that are gone may stay", "err", err)
		}
		f.metrics.flowsDuration.WithLabelValues(t.family.String()).Observe(time.Since(start).Seconds())
		f.metrics.flowsEnded.WithLabelValues(t.family.String()).Add(float64(n))
	}
}
