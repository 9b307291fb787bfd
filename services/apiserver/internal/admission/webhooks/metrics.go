package webhooks

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// highestCode bounds the values of the label for codes, which webhooks choose.
const highestCode = 600

// metrics count the calls of both plugins under Kubernetes' names.
type metrics struct {
	duration, evaluation                             *prometheus.HistogramVec
	requests, rejections, opened, errors, exclusions *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels))
	}
	return &metrics{
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

func (m *metrics) called(step, name, operation string, code int, rejected bool, elapsed time.Duration) {
	refused := strconv.FormatBool(rejected)
	m.requests.WithLabelValues(name, step, operation, strconv.Itoa(min(code, highestCode)), refused).Inc()
	m.duration.WithLabelValues(name, step, operation, refused).Observe(elapsed.Seconds())
}

func (m *metrics) rejected(step, name, operation, why string, code int) {
	m.rejections.WithLabelValues(name, step, operation, why, strconv.Itoa(min(code, highestCode))).Inc()
}

func (m *metrics) failedOpen(step, name string) { m.opened.WithLabelValues(name, step).Inc() }

// ofWebhooks is the label kind of match conditions, which policies have as well.
const ofWebhooks = "webhook"

func (m *metrics) excluded(step, name, operation string) {
	m.exclusions.WithLabelValues(name, ofWebhooks, step, operation).Inc()
}

func (m *metrics) conditionFailed(step, name, operation string) {
	m.errors.WithLabelValues(name, ofWebhooks, step, operation).Inc()
}

func (m *metrics) evaluated(step, name, operation string, elapsed time.Duration) {
	m.evaluation.WithLabelValues(name, ofWebhooks, step, operation).Observe(elapsed.Seconds())
}
