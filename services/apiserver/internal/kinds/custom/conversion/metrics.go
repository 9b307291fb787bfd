package conversion

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// Why a conversion failed, as a label of metrics.
const (
	uncalled  = "conversion_webhook_call_failure"
	malformed = "conversion_webhook_malformed_response_failure"
	partial   = "conversion_webhook_partial_response_failure"
	invalid   = "conversion_webhook_invalid_converted_object_failure"
)

// metrics count conversions by webhooks under Kubernetes' names.
type metrics struct {
	requests           *prometheus.CounterVec
	latency, durations *prometheus.HistogramVec

	mu    sync.Mutex
	names map[string]bool // the definitions that durations has
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	return &metrics{
		names: map[string]bool{},
		requests: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_conversion_webhook_request_total", Help: "Conversions by webhooks, by result and type of failure.",
		}, []string{"result", "failure_type"})),
		latency: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_conversion_webhook_duration_seconds", Help: "Time of conversions by webhooks, by result and type of failure.",
			Buckets: []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60},
		}, []string{"result", "failure_type"})),
		durations: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "apiserver_crd_conversion_webhook_duration_seconds",
			Help:    "Time of conversions by webhooks, by definition, version of the first object, version asked for, and whether they succeeded.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"crd_name", "from_version", "to_version", "succeeded"})),
	}
}

// called counts a conversion that failed for why, if err is not nil.
func (m *metrics) called(why string, err error, elapsed time.Duration) {
	result := "success"
	if err != nil {
		result = "failure"
	} else {
		why = ""
	}
	m.requests.WithLabelValues(result, why).Inc()
	m.latency.WithLabelValues(result, why).Observe(elapsed.Seconds())
}

// converted counts a conversion of a definition's objects.
func (m *metrics) converted(definition, from, to string, err error, elapsed time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[definition] = true
	m.durations.WithLabelValues(definition, from, to, strconv.FormatBool(err == nil)).Observe(elapsed.Seconds())
}

// keep forgets all definitions but those with some names.
func (m *metrics) keep(names map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.names {
		if !names[name] {
			delete(m.names, name)
			m.durations.DeletePartialMatch(prometheus.Labels{"crd_name": name})
		}
	}
}
