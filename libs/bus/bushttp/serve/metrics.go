package serve

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are shared by the Servers of one process.
type metrics struct {
	requests       *prometheus.CounterVec
	inWork         prometheus.Gauge
	received, sent prometheus.Counter
	malformed      prometheus.Counter
}

// newMetrics returns the metrics of a server of the API or, unless node is empty, of a node: one process may
// have both.
func newMetrics(registerer prometheus.Registerer, node string) *metrics {
	server := "api"
	if node != "" {
		server = "node"
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		opts := prometheus.CounterOpts{Name: name, Help: help}
		return metric.Register(registerer, prometheus.NewCounterVec(opts, append([]string{"server"}, labels...)))
	}
	bytes := vec("garboard_bushttp_body_bytes_total", "Bytes of request bodies (in) and response bodies (out) over NATS.", "direction")
	return &metrics{
		requests: vec("garboard_bushttp_requests_total",
			"Requests over NATS by outcome: answered; cut, by the handler or the server; abandoned, by the caller or because it is gone; refused.",
			"outcome").MustCurryWith(prometheus.Labels{"server": server}),
		inWork: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_bushttp_requests", Help: "Requests over NATS in flight, watches, followed logs and sessions included.",
		}, []string{"server"})).WithLabelValues(server),
		received: bytes.WithLabelValues(server, "in"),
		sent:     bytes.WithLabelValues(server, "out"),
		malformed: vec("garboard_bushttp_malformed_total",
			"Messages of callers over NATS that were ignored because they are malformed or name no inbox of the caller.").WithLabelValues(server),
	}
}
