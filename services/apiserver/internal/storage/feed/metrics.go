package feed

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/scheme"
)

// metrics uses kube-apiserver's names (storage/cacher/metrics) where they exist.
type metrics struct {
	received    *prometheus.CounterVec
	starts      *prometheus.CounterVec
	terminated  *prometheus.CounterVec
	revision    *prometheus.GaugeVec
	undecodable *prometheus.CounterVec
	waited      *prometheus.HistogramVec
	consistent  *prometheus.CounterVec
	dispatched  *prometheus.CounterVec
	capacity    *prometheus.GaugeVec
	encoded     prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	labels := []string{"group", "resource"}
	m := &metrics{
		received: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_cache_events_received_total", Help: "Counter of events received in watch cache.",
		}, labels),
		starts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_watch_cache_initializations_total", Help: "Counter of watch cache initializations.",
		}, labels),
		terminated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_terminated_watchers_total", Help: "Counter of watchers closed due to unresponsiveness.",
		}, labels),
		revision: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_watch_cache_resource_version", Help: "Current resource version of watch cache.",
		}, labels),
		undecodable: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_feed_undecodable_total", Help: "Stored values that could not be read and are not shown.",
		}, labels),
	}
	m.waited = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "apiserver_watch_cache_read_wait_seconds", Help: "Histogram of time spent waiting for a watch cache to become fresh.",
		Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3},
	}, labels)
	m.consistent = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_watch_cache_consistent_read_total", Help: "Counter for consistent reads from cache.",
	}, []string{"group", "resource", "success", "fallback"})
	m.dispatched = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "apiserver_watch_cache_events_dispatched_total", Help: "Counter of events dispatched in watch cache.",
	}, labels)
	m.capacity = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "apiserver_watch_cache_capacity", Help: "Total capacity of watch cache.",
	}, labels)
	m.encoded = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "garboard_feed_encodings_total", Help: "Objects encoded for watches; what several watches share counts once.",
	})
	if registerer != nil {
		registerer.MustRegister(m.received, m.starts, m.terminated, m.revision, m.undecodable, m.waited, m.consistent, m.dispatched, m.capacity, m.encoded)
	}
	return m
}

// forget removes the series of a kind.
func (m *metrics) forget(kind *scheme.Kind) {
	labels := prometheus.Labels{"group": kind.Group, "resource": kind.Resource}
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.received, m.starts, m.terminated, m.revision, m.undecodable, m.waited, m.consistent, m.dispatched, m.capacity,
	} {
		vec.DeletePartialMatch(labels)
	}
}
