package reconcile

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/informer/workqueue"
	"github.com/garboard/garboard/libs/metric"
)

// metrics are the metrics of one controller, under controller-runtime's names.
type metrics struct {
	total    *prometheus.CounterVec
	errors   prometheus.Counter
	terminal prometheus.Counter
	panics   prometheus.Counter
	timeouts prometheus.Counter
	stale    prometheus.Counter
	wait     prometheus.Observer
	time     prometheus.Observer
	active   prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer, name string, workers int) metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"controller"}))
	}
	gauge("controller_runtime_max_concurrent_reconciles", "Workers of a controller.").
		WithLabelValues(name).Set(float64(workers))
	total := counter("controller_runtime_reconcile_total", "Reconciles by result.", "controller", "result")
	for _, result := range []string{"success", "error", "requeue", "requeue_after"} {
		total.WithLabelValues(name, result).Add(0) // A rate needs a first value.
	}
	return metrics{
		total:    total,
		errors:   counter("controller_runtime_reconcile_errors_total", "Reconciles that failed.", "controller").WithLabelValues(name),
		terminal: counter("controller_runtime_terminal_reconcile_errors_total", "Reconciles that failed permanently.", "controller").WithLabelValues(name),
		panics:   counter("controller_runtime_reconcile_panics_total", "Reconciles that panicked.", "controller").WithLabelValues(name),
		timeouts: counter("controller_runtime_reconcile_timeouts_total", "Reconciles that exceeded their timeout.", "controller").WithLabelValues(name),
		stale: counter("garboard_reconcile_stale_total",
			"Times a key was put back because a cache did not show the last write for it.", "controller").WithLabelValues(name),
		wait: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "garboard_reconcile_cache_wait_seconds", Help: "How long reconciles waited for a cache to show the last write for their key.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"controller"})).WithLabelValues(name),
		time: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "controller_runtime_reconcile_time_seconds", Help: "How long reconciles took.",
			Buckets: []float64{.001, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"controller"})).WithLabelValues(name),
		active: gauge("controller_runtime_active_workers", "Workers that are reconciling.").WithLabelValues(name),
	}
}

// QueueMetrics returns a provider that registers the metrics of work queues, under Kubernetes'
// names (workqueue_depth and so on, with the label name). As in controller-runtime, workqueue_depth
// also has the label priority, empty for a queue without priorities. QueueMetrics may be called
// several times for one registerer.
func QueueMetrics(registerer prometheus.Registerer) workqueue.MetricsProvider {
	label := []string{"name"}
	gauge := func(name, help string, more ...string) *prometheus.GaugeVec {
		return metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append(more, "name")))
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, label))
	}
	histogram := func(name, help string) *prometheus.HistogramVec {
		return metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(10e-9, 10, 12),
		}, label))
	}
	return queueMetrics{
		depth:      gauge("workqueue_depth", "Current depth of workqueue by workqueue and priority", "priority"),
		adds:       counter("workqueue_adds_total", "Total number of adds handled by workqueue"),
		latency:    histogram("workqueue_queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested."),
		duration:   histogram("workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes."),
		unfinished: gauge("workqueue_unfinished_work_seconds", "Seconds of work that is in progress and hasn't been observed by work_duration."),
		longest:    gauge("workqueue_longest_running_processor_seconds", "How many seconds has the longest running processor for workqueue been running."),
		retries:    counter("workqueue_retries_total", "Total number of retries handled by workqueue"),
	}
}

type queueMetrics struct {
	depth, unfinished, longest *prometheus.GaugeVec
	adds, retries              *prometheus.CounterVec
	latency, duration          *prometheus.HistogramVec
}

func (m queueMetrics) NewDepthMetric(name string) workqueue.GaugeMetric {
	return m.depth.WithLabelValues("", name)
}

func (m queueMetrics) NewDepthMetricWithPriority(name string) workqueue.DepthMetricWithPriority {
	return depthByPriority{of: m.depth, name: name}
}

// depthByPriority is the depth of one queue. Only priorities that were used have a series.
type depthByPriority struct {
	of   *prometheus.GaugeVec
	name string
}

func (d depthByPriority) Inc(priority int) {
	d.of.WithLabelValues(strconv.Itoa(priority), d.name).Inc()
}
func (d depthByPriority) Dec(priority int) {
	d.of.WithLabelValues(strconv.Itoa(priority), d.name).Dec()
}

func (m queueMetrics) NewAddsMetric(name string) workqueue.CounterMetric {
	return m.adds.WithLabelValues(name)
}

func (m queueMetrics) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return m.latency.WithLabelValues(name)
}

func (m queueMetrics) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return m.duration.WithLabelValues(name)
}

func (m queueMetrics) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.unfinished.WithLabelValues(name)
}

func (m queueMetrics) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return m.longest.WithLabelValues(name)
}

func (m queueMetrics) NewRetriesMetric(name string) workqueue.CounterMetric {
	return m.retries.WithLabelValues(name)
}
