// Package metric registers Prometheus collectors where several parts of a process share one
// registerer.
package metric

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Register registers a collector and gives it back, or gives the one that is registered
// already under its name and labels, so that all who count the same thing count it together.
// With a nil registerer the collector counts for nobody. One that cannot be registered, since
// its name is taken with other labels, counts for nobody either: metrics stop no program.
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
