package endpointslice

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are the metrics of the controller, under Kubernetes' names.
type metrics struct {
	changes, syncs           *prometheus.CounterVec
	added, removed           *prometheus.HistogramVec
	perSync                  *prometheus.HistogramVec
	endpoints, exist, wanted *prometheus.GaugeVec
	distributions            *prometheus.GaugeVec

	mu       sync.Mutex
	services map[string]measured
}

// measured is what one Service adds to the gauges.
type measured struct {
	distribution string
	types        map[discoveryv1.AddressType]totals
}

type totals struct{ endpoints, exist, wanted int }

func newMetrics(registerer prometheus.Registerer) *metrics {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label}))
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		opts := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
		return metric.Register(registerer, prometheus.NewHistogramVec(opts, labels))
	}
	sizes := prometheus.ExponentialBuckets(2, 2, 15)
	return &metrics{
		changes:   counter("endpoint_slice_controller_changes", "EndpointSlices that were written.", "operation"),
		syncs:     counter("endpoint_slice_controller_syncs", "Reconciles of Services.", "result"),
		added:     histogram("endpoint_slice_controller_endpoints_added_per_sync", "Endpoints that a reconcile of a Service added.", sizes),
		removed:   histogram("endpoint_slice_controller_endpoints_removed_per_sync", "Endpoints that a reconcile of a Service removed.", sizes),
		perSync:   histogram("endpoint_slice_controller_endpointslices_changed_per_sync", "EndpointSlices that a reconcile of a Service changed.", prometheus.DefBuckets, "topology", "traffic_distribution"),
		endpoints: gauge("endpoint_slice_controller_endpoints_desired", "Endpoints that are wanted."),
		exist:     gauge("endpoint_slice_controller_num_endpoint_slices", "EndpointSlices that exist."),
		wanted:    gauge("endpoint_slice_controller_desired_endpoint_slices", "EndpointSlices that would exist if each were full."),
		distributions: gauge("endpoint_slice_controller_services_count_by_traffic_distribution",
			"Services by their distribution of traffic, without those that have none.", "traffic_distribution"),
		services: map[string]measured{},
	}
}

// synced counts a reconcile.
func (m *metrics) synced(err error) {
	result := "success"
	if err != nil {
		result = "error"
	}
	m.syncs.WithLabelValues(result).Inc()
}

// wrote counts what a reconcile did for one type of addresses of a Service that had some slices.
func (m *metrics) wrote(svc *corev1.Service, addressType discoveryv1.AddressType, p packing, had int) {
	for operation, n := range map[string]int{"create": len(p.Create), "update": len(p.Update), "delete": len(p.Delete)} {
		if n > 0 {
			m.changes.WithLabelValues(operation).Add(float64(n))
		}
	}
	m.added.WithLabelValues().Observe(float64(p.added))
	m.removed.WithLabelValues().Observe(float64(p.removed))
	topology, distribution := "Disabled", ""
	if byTopology(svc) {
		topology = "Auto"
	} else if d := svc.Spec.TrafficDistribution; d != nil {
		switch *d {
		case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone,
			corev1.ServiceTrafficDistributionPreferSameNode:
			distribution = *d
		}
	}
	m.perSync.WithLabelValues(topology, distribution).Observe(float64(len(p.Create) + len(p.Update) + len(p.Delete)))
	t := totals{exist: had + len(p.Create) - len(p.Delete)}
	for _, size := range p.sizes {
		t.endpoints += size
		t.wanted += (size + maxEndpoints - 1) / maxEndpoints
	}
	t.wanted = max(t.wanted, 1)
	m.set(key(svc), distribution, addressType, t)
}

// set replaces what one type of a Service's addresses adds to the gauges.
func (m *metrics) set(service, distribution string, addressType discoveryv1.AddressType, t totals) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, known := m.services[service]
	if !known {
		s.types = map[discoveryv1.AddressType]totals{}
	}
	m.count(s.types[addressType], -1)
	s.types[addressType] = t
	m.count(t, 1)
	if s.distribution != distribution || !known {
		m.distribute(s.distribution, -1)
		m.distribute(distribution, 1)
	}
	s.distribution = distribution
	m.services[service] = s
}

// forget takes a Service out of the gauges.
func (m *metrics) forget(service string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, known := m.services[service]
	if !known {
		return
	}
	for _, t := range s.types {
		m.count(t, -1)
	}
	m.distribute(s.distribution, -1)
	delete(m.services, service)
}

func (m *metrics) count(t totals, sign float64) {
	m.endpoints.WithLabelValues().Add(sign * float64(t.endpoints))
	m.exist.WithLabelValues().Add(sign * float64(t.exist))
	m.wanted.WithLabelValues().Add(sign * float64(t.wanted))
}

func (m *metrics) distribute(distribution string, sign float64) {
	if distribution != "" {
		m.distributions.WithLabelValues(distribution).Add(sign)
	}
}
