package listwatch

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics of all followers of a source.
type metrics struct {
	reads, watches, failures, discards *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"resource"}, labels...))
		if registerer == nil {
			return vec
		}
		if already, ok := errors.AsType[prometheus.AlreadyRegisteredError](registerer.Register(vec)); ok {
			if existing, ok := already.ExistingCollector.(*prometheus.CounterVec); ok {
				return existing
			}
		}
		return vec
	}
	return &metrics{
		reads:    counter("garboard_listwatch_whole_views_total", "Whole views read, by list or by watch-list.", "by"),
		watches:  counter("garboard_listwatch_watches_total", "Watches opened."),
		failures: counter("garboard_listwatch_failures_total", "Failures to read a whole view or to open a watch."),
		discards: counter("garboard_listwatch_discarded_total", "Events that could not be understood; after each, the whole view is read again."),
	}
}

func (m *metrics) of(resource string) counts { return counts{m, resource} }

// counts are the counters of one resource.
type counts struct {
	all      *metrics
	resource string
}

func (c counts) read(by string) { c.all.reads.WithLabelValues(c.resource, by).Inc() }
func (c counts) watched()       { c.all.watches.WithLabelValues(c.resource).Inc() }
func (c counts) failed()        { c.all.failures.WithLabelValues(c.resource).Inc() }
func (c counts) discarded()     { c.all.discards.WithLabelValues(c.resource).Inc() }
