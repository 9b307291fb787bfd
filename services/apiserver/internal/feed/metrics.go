package feed

import "github.com/prometheus/client_golang/prometheus"

// metrics have kube-apiserver's names (storage/cacher/metrics) where it has them.
type metrics struct {
	received    *prometheus.CounterVec
	starts      *prometheus.CounterVec
	terminated  *prometheus.CounterVec
	revision    *prometheus.GaugeVec
	undecodable *prometheus.CounterVec
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
	if registerer != nil {
		registerer.MustRegister(m.received, m.starts, m.terminated, m.revision, m.undecodable)
	}
	return m
}
