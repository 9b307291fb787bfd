package respond

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// metrics count asks. Clients can define kinds under any number of names, so the series of a kind end with it.
type metrics struct {
	asks    *prometheus.CounterVec
	refused *prometheus.CounterVec

	table   *scheme.Table
	mu      sync.Mutex
	counted map[schema.GroupResource]bool // resources that have series
}

func newMetrics(registerer prometheus.Registerer, table *scheme.Table) *metrics {
	m := &metrics{
		asks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_responder_asks_total", Help: "Asks answered, by outcome.",
		}, []string{"group", "resource", "outcome"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_responder_refused_total", Help: "Asks that got no content, by reason.",
		}, []string{"reason"}),
		table: table, counted: map[schema.GroupResource]bool{},
	}
	if registerer != nil {
		registerer.MustRegister(m.asks, m.refused)
	}
	return m
}

// answered counts an ask. That for a resource that is not served counts without its name, which an asker may
// have made up.
func (m *metrics) answered(of schema.GroupResource, outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.table.Stored(of) == nil {
		of = schema.GroupResource{}
	} else {
		m.counted[of] = true
	}
	m.asks.WithLabelValues(of.Group, of.Resource, outcome).Inc()
}

// sweep ends the series of resources that are no longer served.
func (m *metrics) sweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for of := range m.counted {
		if m.table.Stored(of) == nil {
			delete(m.counted, of)
			m.asks.DeletePartialMatch(prometheus.Labels{"group": of.Group, "resource": of.Resource})
		}
	}
}
