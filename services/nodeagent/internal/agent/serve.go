package agent

import (
	"net"
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/services/nodeagent/internal/logrotate"
	"github.com/garboard/garboard/services/nodeagent/internal/node"
	"github.com/garboard/garboard/services/nodeagent/internal/nodelogs"
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
		Pods: a.pods.List, States: a.held, SyncLoop: a.loopHealth, Configuration: a.configuration(), Logs: a.systemLogs(),
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

// loopHealth returns an error if the sync loop hangs.
func (a *Agent) loopHealth() error {
	a.mu.Lock()
	loop := a.loop
	a.mu.Unlock()
	if loop == nil {
		return nil
	}
	return loop.Health()
}

// systemLogs returns the handler of the logs of the node's own services.
func (a *Agent) systemLogs() http.Handler {
	if !a.cfg.SystemLogs {
		return http.HandlerFunc(nodelogs.Disabled)
	}
	return nodelogs.New(nodelogs.Config{Dir: "/var/log", Query: a.cfg.SystemLogQuery, Logger: a.cfg.Logger})
}

// configuration returns what the agent is configured with, by the names of the kubelet's configuration: the
// fields that the agent honours, and no others.
func (a *Agent) configuration() map[string]any {
	return map[string]any{
		"enableServer":                    true,
		"enableDebuggingHandlers":         true,
		"enableSystemLogHandler":          a.cfg.SystemLogs,
		"enableSystemLogQuery":            a.cfg.SystemLogQuery,
		"maxPods":                         a.cfg.MaxPods,
		"clusterDomain":                   a.cfg.ClusterDomain,
		"clusterDNS":                      slices.Clone(a.cfg.ClusterDNS),
		"resolvConf":                      ResolverConfig,
		"allowedUnsafeSysctls":            slices.Clone(a.cfg.AllowedUnsafeSysctls),
		"containerRuntimeEndpoint":        a.cfg.Runtime.Endpoint(),
		"containerLogMaxSize":             resource.NewQuantity(logrotate.DefaultMaxSize, resource.BinarySI).String(),
		"containerLogMaxFiles":            logrotate.DefaultMaxFiles,
		"nodeStatusUpdateFrequency":       node.CheckPeriod.String(),
		"nodeStatusReportFrequency":       node.ReportPeriod.String(),
		"nodeLeaseDurationSeconds":        a.node.LeaseSeconds(),
		"shutdownGracePeriod":             a.cfg.ShutdownGrace.String(),
		"shutdownGracePeriodCriticalPods": a.cfg.ShutdownGraceCritical.String(),
		"featureGates":                    map[string]bool{},
	}
}

func metricsOf(gatherer prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(gatherer, promhttp.HandlerOpts{})
}
