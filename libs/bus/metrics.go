package bus

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

type metrics struct {
	connected  prometheus.Gauge
	reconnects prometheus.Counter
	renewals   prometheus.Counter
	slow       prometheus.Counter
}

// newMetrics returns the metrics of one connection. Connections of one process share the collectors
// and differ by their label.
func newMetrics(registerer prometheus.Registerer, connection string) *metrics {
	labels := []string{"connection"}
	return &metrics{
		connected: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_bus_connected", Help: "Whether the connection to NATS has a server.",
		}, labels)).WithLabelValues(connection),
		reconnects: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_bus_reconnects_total", Help: "Reconnections to NATS.",
		}, labels)).WithLabelValues(connection),
		renewals: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_bus_renewals_total", Help: "Reconnections to NATS on purpose, for rights that the connection lacked.",
		}, labels)).WithLabelValues(connection),
		slow: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_bus_slow_handlers_total", Help: "How often messages were lost because their handler was slow.",
		}, labels)).WithLabelValues(connection),
	}
}
