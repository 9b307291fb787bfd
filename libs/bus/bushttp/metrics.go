package bushttp

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are those of the Servers of one process.
type metrics struct {
	requests       *prometheus.CounterVec
	inWork         prometheus.Gauge
	received, sent prometheus.Counter
	malformed      prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	bytes := metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "garboard_carrier_body_bytes_total", Help: "Bytes of the bodies of requests over NATS (in) and of their answers (out).",
	}, []string{"direction"}))
	return &metrics{
		requests: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_carrier_requests_total",
			Help: "Requests over NATS, by what became of them: answered; cut, by the handler or the server; abandoned, by the caller, or since he is gone; refused.",
		}, []string{"outcome"})),
		inWork: metric.Register(registerer, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "garboard_carrier_requests", Help: "Requests over NATS that are being served, watches included.",
		})),
		received: bytes.WithLabelValues("in"),
		sent:     bytes.WithLabelValues("out"),
		malformed: metric.Register(registerer, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "garboard_carrier_malformed_total", Help: "Messages of callers over NATS that were ignored since they cannot be read, or name no inbox of the caller.",
		})),
	}
}
