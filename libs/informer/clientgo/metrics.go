package clientgo

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// The ways in which a request was answered, in the metrics.
const (
	wayBus  = "bus"
	wayHTTP = "http"
)

type metrics struct{ requests *prometheus.CounterVec }

func newMetrics(registerer prometheus.Registerer) *metrics {
	requests := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "garboard_clientgo_requests_total",
		Help: "Lists and watches of served resources, by how they were answered, and why if it was not from the bus.",
	}, []string{"resource", "verb", "way", "why"})
	if registerer == nil {
		return &metrics{requests}
	}
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](registerer.Register(requests)); ok {
		if existing, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
			requests = existing
		}
	}
	return &metrics{requests}
}

func (m *metrics) answered(r *request, way, why string) {
	m.requests.WithLabelValues(r.kind.GroupResource().String(), r.verb(), way, why).Inc()
}
