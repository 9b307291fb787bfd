package publish

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/scheme"
)

type metrics struct {
	leader   *prometheus.GaugeVec
	messages *prometheus.CounterVec
	unacked  *prometheus.GaugeVec
	deposed  *prometheus.CounterVec
	revision *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		leader: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_publisher_leader", Help: "1 while this process is the elected publisher.",
		}, []string{"election"}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_publisher_messages_total", Help: "Watch messages sent.",
		}, []string{"group", "resource", "type"}),
		unacked: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_publisher_unacknowledged_messages", Help: "Watch messages that the log has not acknowledged.",
		}, []string{"group", "resource"}),
		deposed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_publisher_deposed_total", Help: "Publishers that this process deposed because they were no longer on NATS.",
		}, []string{"election"}),
		revision: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_publisher_revision", Help: "The revision up to which every change was sent; only from the process that publishes.",
		}, []string{"group", "resource"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.leader, m.messages, m.unacked, m.deposed, m.revision)
	}
	return m
}

// sentThrough records that everything of a resource was sent up to a revision.
func (m *metrics) sentThrough(kind *scheme.Kind, revision int64) {
	m.revision.WithLabelValues(kind.Group, kind.Resource).Set(float64(revision))
}

// forget drops the metrics that only the publisher of a resource can report.
func (m *metrics) forget(kind *scheme.Kind) {
	m.revision.DeleteLabelValues(kind.Group, kind.Resource)
	m.unacked.DeleteLabelValues(kind.Group, kind.Resource)
}

// remove drops everything about a resource that is no longer served.
func (m *metrics) remove(kind *scheme.Kind) {
	m.forget(kind)
	m.messages.DeletePartialMatch(prometheus.Labels{"group": kind.Group, "resource": kind.Resource})
}
