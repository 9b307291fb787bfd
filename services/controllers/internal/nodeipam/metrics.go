package nodeipam

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are the metrics of the pools, under Kubernetes' names.
type metrics struct {
	allocations, releases *prometheus.CounterVec
	usage, most           *prometheus.GaugeVec
	tries                 *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	labels := []string{"clusterCIDR"}
	counter := func(name, help string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
	}
	return &metrics{
		allocations: counter("node_ipam_controller_cidrset_cidrs_allocations_total", "Ranges of nodes that were taken."),
		releases:    counter("node_ipam_controller_cidrset_cidrs_releases_total", "Ranges of nodes that were freed."),
		usage:       gauge("node_ipam_controller_cidrset_usage_cidrs", "Share of the ranges that are taken."),
		most:        gauge("node_ipam_controller_cirdset_max_cidrs", "Ranges that there are."),
		tries: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "node_ipam_controller_cidrset_allocation_tries_per_request", Help: "Taken ranges that an allocation passed over.",
			Buckets: prometheus.ExponentialBuckets(1, 5, 5),
		}, labels)),
	}
}

// size notes a new pool.
func (m *metrics) size(p *pool) {
	m.most.WithLabelValues(p.cluster.String()).Set(float64(p.size))
	m.fill(p)
}

func (m *metrics) fill(p *pool) {
	m.usage.WithLabelValues(p.cluster.String()).Set(float64(p.used) / float64(p.size))
}

// allocated notes that a range was taken after some tries, occupied that a node had one already.
func (m *metrics) allocated(p *pool, tries int) {
	m.tries.WithLabelValues(p.cluster.String()).Observe(float64(tries))
	m.occupied(p)
}

func (m *metrics) occupied(p *pool) {
	m.allocations.WithLabelValues(p.cluster.String()).Inc()
	m.fill(p)
}

// released notes that a range was freed.
func (m *metrics) released(p *pool) {
	m.releases.WithLabelValues(p.cluster.String()).Inc()
	m.fill(p)
}
