package publish

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	leader   *prometheus.GaugeVec
	messages *prometheus.CounterVec
	unacked  *prometheus.GaugeVec
	deposed  *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		leader: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_publisher_leader", Help: "1 while this process publishes what the election is about.",
		}, []string{"election"}),
		messages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_publisher_messages_total", Help: "Watch messages sent.",
		}, []string{"group", "resource", "type"}),
		unacked: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_publisher_unacknowledged_messages", Help: "Watch messages that the log has not acknowledged.",
		}, []string{"group", "resource"}),
		deposed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_publisher_deposed_total", Help: "Publishers that this process deposed since nobody answered for them.",
		}, []string{"election"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.leader, m.messages, m.unacked, m.deposed)
	}
	return m
}
