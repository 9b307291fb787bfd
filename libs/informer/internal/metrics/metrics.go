// Package metrics counts what informers do, under upstream's names where upstream has the metric.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// Metrics are the counters of all informers of a process, labelled by resource and by the service
// that follows it (a process may hold several).
type Metrics struct {
	Statuses  *Statuses
	Changes   *prometheus.CounterVec
	Coalesced *prometheus.CounterVec
	Faults    *prometheus.CounterVec
	Latency   *prometheus.HistogramVec
}

// New creates the metrics, or finds those already registered; without a registerer they are counted
// but not exported.
func New(registerer prometheus.Registerer) *Metrics {
	return &Metrics{
		Statuses: metric.Register(registerer, &Statuses{from: map[Informer]struct{}{}}),
		Changes: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informer_changes_total", Help: "Changes applied to the store.",
		}, cacheLabels)),
		Coalesced: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informer_coalesced_updates_total",
			Help: "Updates that a slow handler got merged with an earlier pending update of the same object.",
		}, handlerLabels)),
		Faults: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informer_faults_total",
			Help: "Tolerated faults: a handler's panic, a failing index function or transform, an object of a wrong type, a view that could not be watched.",
		}, []string{"service", "resource", "fault"})),
		Latency: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "informer_processing_latency_seconds",
			Help: "Time taken to process a batch of queued items: to change the store and to queue the handlers' notifications.",
			// From ten microseconds to ten seconds.
			Buckets: prometheus.ExponentialBucketsRange(1e-5, 10, 13),
		}, upstreamLabels)),
	}
}
