package informer

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the counters of all informers of a process, told apart by the service that
// follows (a process may hold several) and the resource.
type metrics struct {
	objects  *prometheus.GaugeVec
	revision *prometheus.GaugeVec
	changes  *prometheus.CounterVec
	pending  *prometheus.GaugeVec
	faults   *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"service", "resource"}))
	}
	return &metrics{
		objects:  gauge("informer_objects", "Objects in the store."),
		revision: gauge("informer_revision", "The etcd revision of which the store is the exact content."),
		pending:  gauge("informer_pending_notifications", "Notifications that wait for their handlers."),
		changes: register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informer_changes_total", Help: "Changes applied to the store.",
		}, []string{"service", "resource"})),
		faults: register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "informer_faults_total",
			Help: "Faults that were survived: a handler's panic, a failing index function, an object of a wrong type.",
		}, []string{"service", "resource", "fault"})),
	}
}

// register registers a collector, or gives the one that is registered already under its name.
// With a nil registerer the collector counts for nobody.
func register[C prometheus.Collector](registerer prometheus.Registerer, collector C) C {
	if registerer == nil {
		return collector
	}
	err := registerer.Register(collector)
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	return collector
}
