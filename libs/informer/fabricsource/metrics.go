package fabricsource

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are the metrics of all followers of a source.
type metrics struct {
	asks, gaps, wholeViews, overflows, fallbacks *prometheus.CounterVec
	discards                                     *prometheus.CounterVec
	overHTTP                                     *prometheus.GaugeVec
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
		asks:       counter("garboard_follow_asks_total", "Asks sent to the apiservers."),
		gaps:       counter("garboard_follow_gaps_total", "Watch messages that could not be applied on arrival."),
		wholeViews: counter("garboard_follow_whole_views_total", "Whole views that replaced the content."),
		overflows:  counter("garboard_follow_buffer_overflows_total", "Times the buffer of early messages was full and was dropped."),
		fallbacks:  counter("garboard_follow_fallbacks_total", "Times HTTP list and watch took over from the bus."),
		discards:   counter("garboard_follow_discarded_total", "Messages and answers that were discarded as faulty.", "why"),
		overHTTP: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_follow_over_http", Help: "Views that HTTP list and watch carry in place of the bus, and why.",
		}, []string{"resource", "why"})),
	}
}

// of returns the counters of one resource.
func (m *metrics) of(resource string) *resourceMetrics { return &resourceMetrics{m, resource} }

type resourceMetrics struct {
	all      *metrics
	resource string
}

func (m *resourceMetrics) asked()     { m.all.asks.WithLabelValues(m.resource).Inc() }
func (m *resourceMetrics) gap()       { m.all.gaps.WithLabelValues(m.resource).Inc() }
func (m *resourceMetrics) wholeView() { m.all.wholeViews.WithLabelValues(m.resource).Inc() }
func (m *resourceMetrics) overflow()  { m.all.overflows.WithLabelValues(m.resource).Inc() }
func (m *resourceMetrics) fellBack()  { m.all.fallbacks.WithLabelValues(m.resource).Inc() }

// overHTTP counts views that HTTP carries, unless why is empty.
func (m *resourceMetrics) overHTTP(why string, views float64) {
	if why != "" {
		m.all.overHTTP.WithLabelValues(m.resource, why).Add(views)
	}
}

func (m *resourceMetrics) discarded(why string) {
	m.all.discards.WithLabelValues(m.resource, why).Inc()
}
