package filters

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// removal forgets the series of custom kinds that are no longer served. Clients can make kinds under any
// number of names.
type removal struct {
	table *scheme.Table

	mu      sync.Mutex
	changed <-chan struct{}
	counted map[schema.GroupVersionResource]bool // custom kinds that have series
}

func newRemoval(table *scheme.Table) *removal {
	_, changed := table.Follow()
	return &removal{table: table, changed: changed, counted: map[schema.GroupVersionResource]bool{}}
}

// count notes that a resource gets series.
func (r *removal) count(group, version, resource string) {
	gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	if kind := r.table.Resource(gvr); resource == "" || kind != nil && !kind.Custom {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted[gvr] = true
}

// gone returns the labels of the resources that are no longer served, if the table has changed since the last
// call.
func (r *removal) gone() []prometheus.Labels {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.changed:
	default:
		return nil
	}
	_, r.changed = r.table.Follow()
	var labels []prometheus.Labels
	for gvr := range r.counted {
		if r.table.Resource(gvr) == nil {
			labels = append(labels, prometheus.Labels{"group": gvr.Group, "version": gvr.Version, "resource": gvr.Resource})
			delete(r.counted, gvr)
		}
	}
	return labels
}

// forget removes the series of the kinds that are gone.
func (m *Metrics) forget() {
	for _, labels := range m.removal.gone() {
		for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.total, m.duration, m.long, m.events, m.ended, m.aborts} {
			vec.DeletePartialMatch(labels)
		}
	}
}
