package respond

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	asks    *prometheus.CounterVec
	refused *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_responder_asks_total", Help: "Asks answered, by outcome.",
		}, []string{"group", "resource", "outcome"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_responder_refused_total", Help: "Asks that got no content, by reason.",
		}, []string{"reason"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.asks, m.refused)
	}
	return m
}
