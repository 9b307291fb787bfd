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

// count notes that a resource has series, and reports whether it is served. A request may end after its kind.
func (r *removal) count(group, version, resource string) (served bool) {
	if resource == "" {
		return true
	}
	gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
	kind := r.table.Resource(gvr)
	if kind != nil && !kind.Custom {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counted[gvr] = true
	return r.table.Resource(gvr) != nil
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
			labels = append(labels, labelsOf(gvr.Group, gvr.Version, gvr.Resource))
			delete(r.counted, gvr)
		}
	}
	return labels
}

func labelsOf(group, version, resource string) prometheus.Labels {
	return prometheus.Labels{"group": group, "version": version, "resource": resource}
}

// counted notes that series of a resource were just written. It removes them if the kind has gone meanwhile.
func (m *Metrics) counted(group, version, resource string) {
	if !m.removal.count(group, version, resource) {
		m.remove(labelsOf(group, version, resource))
	}
}

// forget removes the series of the kinds that are gone.
func (m *Metrics) forget() {
	for _, labels := range m.removal.gone() {
		m.remove(labels)
	}
}

func (m *Metrics) remove(labels prometheus.Labels) {
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.total, m.duration, m.long, m.events, m.ended, m.aborts} {
		vec.DeletePartialMatch(labels)
	}
}
