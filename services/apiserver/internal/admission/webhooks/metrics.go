package webhooks

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// highestCode bounds the values of the label for codes, which webhooks choose.
const highestCode = 600

// metrics count the calls of one plugin under Kubernetes' names, which both share. Administrators choose the
// names of webhooks, so the series of a webhook end with it.
type metrics struct {
	step step
	mu   sync.RWMutex    // held for reading while a series of a webhook is found
	kept map[string]bool // the names of the webhooks that have series

	duration, evaluation                             *prometheus.HistogramVec
	requests, rejections, opened, errors, exclusions *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer, step step) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
	}
	return &metrics{
		step: step, kept: map[string]bool{},
		duration: histogram("apiserver_admission_webhook_admission_duration_seconds", "Time of the calls of admission webhooks, by name, type (admit or validating), operation and whether the request was rejected.",
			[]float64{0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10, 25}, "name", "type", "operation", "rejected"),
		requests: counter("apiserver_admission_webhook_request_total", "Calls of admission webhooks, by name, type, operation, status code (at most 600) and whether the request was rejected.",
			"name", "type", "operation", "code", "rejected"),
		rejections: counter("apiserver_admission_webhook_rejection_count", "Requests that admission webhooks rejected, by name, type, operation, error type and status code (at most 600). "+
			"The error type is no_error if the webhook itself did.", "name", "type", "operation", "error_type", "rejection_code"),
		opened: counter("apiserver_admission_webhook_fail_open_count", "Requests admitted although an admission webhook could not be called, by name and type.", "name", "type"),
		errors: counter("apiserver_admission_match_condition_evaluation_errors_total", "Errors in evaluating the match conditions of webhooks and policies, by name, kind, type (admit or validate) and operation.",
			"name", "kind", "type", "operation"),
		exclusions: counter("apiserver_admission_match_condition_exclusions_total", "Requests for which a webhook was not called because of its match conditions, by name, kind, type and operation.",
			"name", "kind", "type", "operation"),
		evaluation: histogram("apiserver_admission_match_condition_evaluation_seconds", "Time of evaluating the match conditions of webhooks and policies, by name, kind, type and operation.",
			[]float64{0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25}, "name", "kind", "type", "operation"),
	}
}

// of counts something of a webhook, if that is still there: a call may end after its webhook.
func (m *metrics) of(name string, count func()) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.kept[name] {
		count()
	}
}

// keep ends the series of all webhooks but those with the names.
func (m *metrics) keep(names map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.kept {
		if names[name] {
			continue
		}
		calls := prometheus.Labels{"name": name, "type": m.step.call}
		for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.duration, m.requests, m.rejections, m.opened} {
			vec.DeletePartialMatch(calls)
		}
		conditions := prometheus.Labels{"name": name, "type": m.step.condition, "kind": ofWebhooks}
		for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.errors, m.exclusions, m.evaluation} {
			vec.DeletePartialMatch(conditions)
		}
	}
	m.kept = names
}

func (m *metrics) called(name, operation string, code int, rejected bool, elapsed time.Duration) {
	refused := strconv.FormatBool(rejected)
	m.of(name, func() {
		m.requests.WithLabelValues(name, m.step.call, operation, strconv.Itoa(min(code, highestCode)), refused).Inc()
		m.duration.WithLabelValues(name, m.step.call, operation, refused).Observe(elapsed.Seconds())
	})
}

func (m *metrics) rejected(name, operation, why string, code int) {
	m.of(name, func() {
		m.rejections.WithLabelValues(name, m.step.call, operation, why, strconv.Itoa(min(code, highestCode))).Inc()
	})
}

func (m *metrics) failedOpen(name string) {
	m.of(name, func() { m.opened.WithLabelValues(name, m.step.call).Inc() })
}

// ofWebhooks is the label kind of match conditions, which policies have as well.
const ofWebhooks = "webhook"

func (m *metrics) excluded(name, operation string) {
	m.of(name, func() { m.exclusions.WithLabelValues(name, ofWebhooks, m.step.condition, operation).Inc() })
}

func (m *metrics) conditionFailed(name, operation string) {
	m.of(name, func() { m.errors.WithLabelValues(name, ofWebhooks, m.step.condition, operation).Inc() })
}

func (m *metrics) evaluated(name, operation string, elapsed time.Duration) {
	m.of(name, func() {
		m.evaluation.WithLabelValues(name, ofWebhooks, m.step.condition, operation).Observe(elapsed.Seconds())
	})
}
