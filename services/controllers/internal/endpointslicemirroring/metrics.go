package endpointslicemirroring

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/controllers/internal/serviceendpoints"
)

// metrics are the metrics of the controller, under Kubernetes' names.
type metrics struct {
	added, updated, removed, skipped, durations prometheus.Histogram
	endpoints, exist, wanted                    prometheus.Gauge
	changes                                     *prometheus.CounterVec

	mu sync.Mutex
	// mirrored is what each Endpoints object adds to the gauges.
	mirrored map[string]totals
}

type totals struct{ endpoints, exist, wanted int }

func newMetrics(registerer prometheus.Registerer) *metrics {
	histogram := func(name, help string, start float64) prometheus.Histogram {
		return metric.Register(registerer, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(start, 2, 15),
		}))
	}
	gauge := func(name, help string) prometheus.Gauge {
		return metric.Register(registerer, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
	}
	return &metrics{
		added:     histogram("endpoint_slice_mirroring_controller_endpoints_added_per_sync", "Endpoints that a reconcile added.", 2),
		updated:   histogram("endpoint_slice_mirroring_controller_endpoints_updated_per_sync", "Endpoints that a reconcile changed.", 2),
		removed:   histogram("endpoint_slice_mirroring_controller_endpoints_removed_per_sync", "Endpoints that a reconcile removed.", 2),
		skipped:   histogram("endpoint_slice_mirroring_controller_addresses_skipped_per_sync", "Addresses that a reconcile left out: too many, or invalid.", 2),
		durations: histogram("endpoint_slice_mirroring_controller_endpoints_sync_duration", "How long a reconcile took, in seconds.", 0.001),
		endpoints: gauge("endpoint_slice_mirroring_controller_endpoints_desired", "Endpoints that are mirrored."),
		exist:     gauge("endpoint_slice_mirroring_controller_num_endpoint_slices", "EndpointSlices that mirror Endpoints."),
		wanted:    gauge("endpoint_slice_mirroring_controller_desired_endpoint_slices", "EndpointSlices that would exist if each were full."),
		changes: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "endpoint_slice_mirroring_controller_changes", Help: "EndpointSlices that were written.",
		}, []string{"operation"})),
		mirrored: map[string]totals{},
	}
}

// since notes how long a reconcile took.
func (m *metrics) since(began time.Time) { m.durations.Observe(time.Since(began).Seconds()) }

// planned notes what a reconcile is about to do for Endpoints that had some slices.
func (m *metrics) planned(
	key string, wanted map[groupKey]*group, existing []*discoveryv1.EndpointSlice, p serviceendpoints.Plan, skipped int,
) {
	added, updated, removed := differences(wanted, existing)
	m.added.Observe(float64(added))
	m.updated.Observe(float64(updated))
	m.removed.Observe(float64(removed))
	m.skipped.Observe(float64(skipped))
	for operation, n := range map[string]int{"create": len(p.Create), "update": len(p.Update), "delete": len(p.Delete)} {
		if n > 0 {
			m.changes.WithLabelValues(operation).Add(float64(n))
		}
	}
	t := totals{exist: len(existing) + len(p.Create) - len(p.Delete)}
	for _, g := range wanted {
		t.endpoints += len(g.endpoints)
		t.wanted += (len(g.endpoints) + maxAddresses - 1) / maxAddresses
	}
	m.set(key, t)
}

// set replaces what an object adds to the gauges.
func (m *metrics) set(key string, t totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.mirrored[key]
	m.endpoints.Add(float64(t.endpoints - was.endpoints))
	m.exist.Add(float64(t.exist - was.exist))
	m.wanted.Add(float64(t.wanted - was.wanted))
	if t == (totals{}) {
		delete(m.mirrored, key)
		return
	}
	m.mirrored[key] = t
}

// forget takes an object out of the gauges.
func (m *metrics) forget(key string) { m.set(key, totals{}) }

// differences counts the endpoints that the first slice of each group lacks, has otherwise, and has too many.
// Other slices of a group, and those of no group, do not count, as in Kubernetes.
func differences(wanted map[groupKey]*group, existing []*discoveryv1.EndpointSlice) (added, updated, removed int) {
	seen := map[groupKey]bool{}
	for _, slice := range existing {
		key := groupKey{slice.AddressType, serviceendpoints.PortKey(slice.Ports)}
		g := wanted[key]
		if g == nil || seen[key] {
			continue
		}
		seen[key] = true
		left := make(map[serviceendpoints.Identity]*discoveryv1.Endpoint, len(slice.Endpoints))
		for i := range slice.Endpoints {
			left[serviceendpoints.Identify(&slice.Endpoints[i])] = &slice.Endpoints[i]
		}
		for i := range g.endpoints {
			id := serviceendpoints.Identify(&g.endpoints[i])
			has := left[id]
			switch {
			case has == nil:
				added++
			case !serviceendpoints.Same(has, &g.endpoints[i]):
				updated++
			}
			delete(left, id)
		}
		removed += len(left)
	}
	for key, g := range wanted {
		if !seen[key] {
			added += len(g.endpoints)
		}
	}
	return added, updated, removed
}
