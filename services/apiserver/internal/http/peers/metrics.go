package peers

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics have kube-apiserver's names.
type metrics struct{ passed, errors, discovery *prometheus.CounterVec }

func newMetrics(registerer prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	return &metrics{
		passed:    counter("apiserver_rerouted_request_total", "Requests passed on to another apiserver, by the code of its answer.", "code", "group", "version", "resource"),
		errors:    counter("apiserver_peer_proxy_errors_total", "Requests that could not be passed on to another apiserver.", "type", "group", "version", "resource"),
		discovery: counter("apiserver_peer_discovery_sync_errors_total", "Failures to learn what other apiservers serve.", "type"),
	}
}

// failed counts a failure to learn what peers serve.
func (m *metrics) failed(why string) { m.discovery.WithLabelValues(why).Inc() }
