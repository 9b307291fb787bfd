package bushttp

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

func newMetrics(registerer prometheus.Registerer) *metrics {
	bytes := metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "garboard_bushttp_body_bytes_total", Help: "Bytes of request bodies (in) and response bodies (out) over NATS.",
	}, []string{"direction"}))
	return &metrics{
		requests: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_bushttp_requests_total",
			Help: "Requests over NATS by outcome: answered; cut, by the handler or the server; abandoned, by the caller or because it is gone; refused.",
		}, []string{"outcome"})),
		inWork: metric.Register(registerer, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "garboard_bushttp_requests", Help: "Requests over NATS in flight, watches included.",
		})),
		received: bytes.WithLabelValues("in"),
		sent:     bytes.WithLabelValues("out"),
		malformed: metric.Register(registerer, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "garboard_bushttp_malformed_total", Help: "Messages of callers over NATS that were ignored because they are malformed or name no inbox of the caller.",
		})),
	}
}
