package cycle

import (
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/services/scheduler/internal/queue"
)

// Results of an attempt, as metric labels.
const (
	resultScheduled     = "scheduled"
	resultUnschedulable = "unschedulable"
	resultError         = "error"
)

// countedAttempts bounds the label that counts a pod's attempts: from this number on they share one
// value (kube-scheduler's getAttemptsLabel).
const countedAttempts = 15

// metrics are named as in kube-scheduler.
type metrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	whole    *prometheus.HistogramVec
	tries    prometheus.Histogram
	pending  *pending
}

func newMetrics(registerer prometheus.Registerer, profile string) metrics {
	m := metrics{
		attempts: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "scheduler_schedule_attempts_total", Help: "Attempts to schedule pods, by result.",
		}, []string{"result", "profile"})),
		duration: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_scheduling_attempt_duration_seconds", Help: "Duration of scheduling attempts, binding included.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"result", "profile"})),
		whole: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "scheduler_pod_scheduling_sli_duration_seconds", Help: "Time from when the scheduler first saw a pod until the pod was bound, by number of attempts.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 20),
		}, []string{"attempts"})),
		tries: metric.Register(registerer, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "scheduler_pod_scheduling_attempts", Help: "Number of attempts to successfully schedule a pod.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 5),
		})),
		pending: metric.Register(registerer, &pending{desc: prometheus.NewDesc(
			"scheduler_pending_pods", "Pods that wait to be scheduled, by queue.", []string{"queue"}, nil,
		)}),
	}
	for _, result := range []string{resultScheduled, resultUnschedulable, resultError} {
		m.attempts.WithLabelValues(result, profile).Add(0) // A rate needs a first value.
	}
	return m
}

// bound counts a pod that has just been bound.
func (m metrics) bound(item queue.Item) {
	attempts := strconv.Itoa(item.Attempts)
	if item.Attempts >= countedAttempts {
		attempts = strconv.Itoa(countedAttempts) + "+"
	}
	m.whole.WithLabelValues(attempts).Observe(time.Since(item.Added).Seconds())
	m.tries.Observe(float64(item.Attempts))
}

// pending collects the number of pods in the leader's queue; a standby has none.
type pending struct {
	desc  *prometheus.Desc
	queue atomic.Pointer[queue.Queue]
}

// Describe sends the metric's description.
func (p *pending) Describe(to chan<- *prometheus.Desc) { to <- p.desc }

// Collect counts the pods.
func (p *pending) Collect(to chan<- prometheus.Metric) {
	var counts queue.Counts
	if of := p.queue.Load(); of != nil {
		counts = of.Counts()
	}
	for place, count := range map[string]int{"active": counts.Active, "backoff": counts.BackingOff, "unschedulable": counts.Unschedulable} {
		to <- prometheus.MustNewConstMetric(p.desc, prometheus.GaugeValue, float64(count), place)
	}
}
