package prober

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// The results of a probe, as the metrics spell them.
const (
	successful = "successful"
	failed     = "failed"
	unknown    = "unknown"
)

// metrics counts and times probes, in metrics with the kubelet's names. Those of a container end with its
// probes.
type metrics struct {
	total    *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	return &metrics{
		total: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prober_probe_total", Help: "Cumulative number of a liveness, readiness or startup probe for a container by result.",
		}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"})),
		duration: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prober_probe_duration_seconds", Help: "Duration in seconds for a probe response.",
		}, []string{"probe_type", "container", "pod", "namespace"})),
	}
}

// count records a probe. As in the kubelet, the duration of one that failed is not recorded.
func (m *metrics) count(w *worker, ok bool, err error, took time.Duration) {
	result := successful
	switch {
	case err != nil:
		result = unknown
	case !ok:
		result = failed
	}
	m.total.WithLabelValues(w.key.probe, result, w.container.Name, w.pod.Name, w.pod.Namespace, w.uid).Inc()
	if result != failed {
		m.duration.WithLabelValues(w.key.probe, w.container.Name, w.pod.Name, w.pod.Namespace).Observe(took.Seconds())
	}
}

// forget drops the metrics of a probe that has ended.
func (m *metrics) forget(w *worker) {
	for _, result := range []string{successful, failed, unknown} {
		m.total.DeleteLabelValues(w.key.probe, result, w.container.Name, w.pod.Name, w.pod.Namespace, w.uid)
	}
	m.duration.DeleteLabelValues(w.key.probe, w.container.Name, w.pod.Name, w.pod.Namespace)
}
