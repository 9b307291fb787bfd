// Package metric registers Prometheus collectors where several parts of a process share one
// registerer.
package metric

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector and returns it, or returns the one that is already registered
// under its name and labels, so that all users of a metric share it. With a nil registerer the
// collector is not exported. Neither is one that cannot be registered because its name is taken
// with other labels: metrics must not stop a program.
func Register[C prometheus.Collector](registerer prometheus.Registerer, collector C) C {
	if registerer == nil {
		return collector
	}
	if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](registerer.Register(collector)); ok {
		if existing, ok := already.ExistingCollector.(C); ok {
			return existing
		}
	}
	return collector
}
