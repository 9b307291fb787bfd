package podnetwork

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics describe the pod network. Kubernetes has none of the kind: its networks are others' programs.
type metrics struct {
	duration prometheus.Histogram
	failures prometheus.Counter
	peers    *prometheus.GaugeVec
	refused  prometheus.Gauge
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	return &metrics{
		duration: metric.Register(registerer, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "garboard_pod_network_sync_duration_seconds", Help: "Time to bring the node's pod network to its wanted state.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		})),
		failures: metric.Register(registerer, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "garboard_pod_network_sync_failures_total", Help: "Failed attempts to bring the node's pod network to its wanted state.",
		})),
		peers: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_pod_network_peers", Help: "Nodes whose pods this node's pods reach, by the way.",
		}, []string{"by"})),
		refused: metric.Register(registerer, prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "garboard_pod_network_refused_cidrs", Help: "Pod CIDRs that the node does not use, since they are not valid here.",
		})),
	}
}

// synced records an attempt.
func (m *metrics) synced(plan *Plan, took time.Duration, err error) {
	m.duration.Observe(took.Seconds())
	if err != nil {
		m.failures.Inc()
	}
	if plan == nil {
		return
	}
	tunnels := 0
	for _, peer := range plan.Peers {
		tunnels += boolean(peer.Tunnel)
	}
	m.peers.WithLabelValues("vxlan").Set(float64(tunnels))
	m.peers.WithLabelValues("route").Set(float64(len(plan.Peers) - tunnels))
	m.refused.Set(float64(len(plan.Refused)))
}
