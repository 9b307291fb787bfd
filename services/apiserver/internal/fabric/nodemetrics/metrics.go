package nodemetrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics count the questions to nodes. The outcomes are the constants of this package.
type metrics struct {
	asks     *prometheus.CounterVec
	duration prometheus.Histogram
}

// newMetrics registers the metrics, unless registerer is nil.
func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_node_stats_asks_total", Help: "Questions to node agents for what their pods use, by outcome.",
		}, []string{"outcome"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "garboard_node_stats_ask_duration_seconds", Help: "How long node agents took to answer for what their pods use, or did not.",
			Buckets: []float64{0.005, 0.02, 0.1, 0.5, 1, 2, 5, 10},
		}),
	}
	for _, outcome := range []string{answered, absent, silent, refused} {
		m.asks.WithLabelValues(outcome)
	}
	if registerer != nil {
		registerer.MustRegister(m.asks, m.duration)
	}
	return m
}

func (m *metrics) asked(outcome string, took time.Duration) {
	m.asks.WithLabelValues(outcome).Inc()
	m.duration.Observe(took.Seconds())
}
