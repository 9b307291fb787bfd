package agent

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// metrics is a collector of what runs on the node, in metrics with the kubelet's names.
type metrics struct {
	agent                                         *Agent
	pods, containers, ephemeral, node, lastListed *prometheus.Desc
}

func newMetrics(a *Agent) *metrics {
	return &metrics{
		agent:      a,
		pods:       prometheus.NewDesc("kubelet_running_pods", "Number of pods that have a running pod sandbox.", nil, nil),
		containers: prometheus.NewDesc("kubelet_running_containers", "Number of containers by their state.", []string{"container_state"}, nil),
		ephemeral:  prometheus.NewDesc("kubelet_managed_ephemeral_containers", "Number of ephemeral containers in the specs of the node's pods.", nil, nil),
		node:       prometheus.NewDesc("kubelet_node_name", "The node's name. The count is always 1.", []string{"node"}, nil),
		lastListed: prometheus.NewDesc("kubelet_pleg_last_seen_seconds",
			"Timestamp of the last listing of the runtime's pods, in seconds since 1970.", nil, nil),
	}
}

// Describe sends the descriptors of the metrics.
func (m *metrics) Describe(to chan<- *prometheus.Desc) {
	to <- m.pods
	to <- m.containers
	to <- m.ephemeral
	to <- m.node
	to <- m.lastListed
}

// Collect counts the pods and containers of the last list of the runtime. Before the first list it
// reports only the node and the ephemeral containers that the API wants.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	gauge(m.node, 1, m.agent.cfg.NodeName)
	ephemeral := 0
	for _, pod := range m.agent.pods.List() {
		ephemeral += len(pod.Spec.EphemeralContainers)
	}
	gauge(m.ephemeral, float64(ephemeral))
	held, listed := m.agent.pleg.Pods()
	if listed.IsZero() {
		return
	}
	gauge(m.lastListed, float64(listed.UnixMilli())/1000)
	pods := 0
	states := map[runtime.ContainerState]int{runtime.Created: 0, runtime.Running: 0, runtime.Exited: 0, runtime.Unknown: 0}
	for _, pod := range held {
		for i := range pod.Sandboxes {
			if pod.Sandboxes[i].Ready {
				pods++
				break
			}
		}
		for i := range pod.Containers {
			states[pod.Containers[i].State]++
		}
	}
	gauge(m.pods, float64(pods))
	for state, count := range states {
		gauge(m.containers, float64(count), strings.ToLower(string(state)))
	}
}
