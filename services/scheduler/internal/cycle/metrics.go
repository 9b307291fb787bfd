package cycle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/scheduler/internal/queue"
)

// metrics have kube-scheduler's names.
type metrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	pending  *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) metrics {
	return metrics{
		attempts: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total", Help: "Attempts to schedule pods, by result.",
		}, []string{"result", "profile"})),
		duration: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_scheduling_attempt_duration_seconds", Help: "How long attempts took, binding included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"result", "profile"})),
		pending: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "scheduler_pending_pods", Help: "Pods that wait, by the place where they do.",
		}, []string{"queue"})),
	}
}

func (m metrics) waiting(counts queue.Counts) {
	m.pending.WithLabelValues("active").Set(float64(counts.Active))
	m.pending.WithLabelValues("backoff").Set(float64(counts.BackingOff))
	m.pending.WithLabelValues("unschedulable").Set(float64(counts.Unschedulable))
}
