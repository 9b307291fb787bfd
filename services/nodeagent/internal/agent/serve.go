package agent

import (
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/garboard/garboard/services/nodeagent/internal/resourcemetrics"
	"github.com/garboard/garboard/services/nodeagent/internal/server"
)

// handler returns the kubelet's API of this node.
func (a *Agent) handler() http.Handler {
	dial := a.cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	return server.New(server.Config{
		Dial: dial, NodeIP: a.cfg.NodeIP,
		Runtime: a.cfg.Runtime, Pod: a.pods.Named, State: a.pleg.Pod, Waiting: a.lifecycle.WaitingReason,
		Stats: a.stats,
		Metrics: map[string]http.Handler{
			"/metrics":          metricsOf(a.cfg.Gatherer),
			"/metrics/probes":   metricsOf(a.probes),
			"/metrics/resource": resourcemetrics.Resource(a.stats, a.cfg.Logger),
			"/metrics/cadvisor": resourcemetrics.Containers(a.stats, a.node.Object, a.cfg.Logger),
		},
		Logger: a.cfg.Logger,
	})
}

func metricsOf(gatherer prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})
}
