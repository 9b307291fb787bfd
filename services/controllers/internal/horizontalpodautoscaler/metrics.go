package horizontalpodautoscaler

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/garboard/garboard/libs/metric"
)

// What a reconcile did, in metrics.
const (
	actionNone = "none"
	actionUp   = "scale_up"
	actionDown = "scale_down"
)

func actionOf(current, wanted int32) string {
	switch {
	case wanted > current:
		return actionUp
	case wanted < current:
		return actionDown
	}
	return actionNone
}

// metrics are the controller's metrics, under Kubernetes' names.
type metrics struct {
	reconciliations, computations       *prometheus.CounterVec
	reconciliationTime, computationTime *prometheus.HistogramVec
	autoscalers                         prometheus.Gauge
	desired                             *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	ofPass, ofMetric := []string{"action", "error"}, []string{"action", "error", "metric_type"}
	counter := func(name, help string, labels []string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	histogram := func(name, help string, labels []string) *prometheus.HistogramVec {
		return metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, labels))
	}
	return &metrics{
		reconciliations:    counter("horizontal_pod_autoscaler_controller_reconciliations_total", "Reconciles of autoscalers.", ofPass),
		reconciliationTime: histogram("horizontal_pod_autoscaler_controller_reconciliation_duration_seconds", "How long a reconcile of an autoscaler takes.", ofPass),
		computations:       counter("horizontal_pod_autoscaler_controller_metric_computation_total", "Metrics of autoscalers that were read.", ofMetric),
		computationTime:    histogram("horizontal_pod_autoscaler_controller_metric_computation_duration_seconds", "How long it takes to read a metric of an autoscaler.", ofMetric),
		autoscalers: metric.Register(registerer, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "horizontal_pod_autoscaler_controller_num_horizontal_pod_autoscalers", Help: "Autoscalers that there are.",
		})),
		desired: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "horizontal_pod_autoscaler_controller_desired_replicas", Help: "Replicas that an autoscaler asks for.",
		}, []string{"namespace", "hpa_name"})),
	}
}

func errorOf(err error) string {
	var fault specError
	switch {
	case err == nil:
		return "none"
	case errors.As(err, &fault):
		return "spec"
	}
	return "internal"
}

// reconciled notes a reconcile.
func (m *metrics) reconciled(action string, err error, took time.Duration) {
	m.reconciliations.WithLabelValues(action, errorOf(err)).Inc()
	m.reconciliationTime.WithLabelValues(action, errorOf(err)).Observe(took.Seconds())
}

// computed notes that a metric was read.
func (m *metrics) computed(action string, err error, of autoscalingv2.MetricSourceType, took time.Duration) {
	if err != nil {
		action = actionNone
	}
	m.computations.WithLabelValues(action, errorOf(err), string(of)).Inc()
	m.computationTime.WithLabelValues(action, errorOf(err), string(of)).Observe(took.Seconds())
}

// forget notes that an autoscaler is gone, and how many are left.
func (m *metrics) forget(namespace, name string, left int) {
	m.desired.DeleteLabelValues(namespace, name)
	m.autoscalers.Set(float64(left))
}

func (m *metrics) clear() {
	m.desired.Reset()
	m.autoscalers.Set(0)
}
