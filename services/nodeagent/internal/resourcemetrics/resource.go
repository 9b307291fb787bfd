package resourcemetrics

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
)

// Summarizer reports what the node and its pods use: it is a *stats.Provider.
type Summarizer interface {
	Summary(ctx context.Context, onlyCPUAndMemory bool) (*statsapi.Summary, error)
}

// The labels of pods and containers.
var (
	ofPod       = []string{"pod", "namespace"}
	ofContainer = []string{"container", "pod", "namespace"}
)

// The metrics of /metrics/resource (kubernetes, pkg/kubelet/metrics/collectors).
var (
	nodeCPU = prometheus.NewDesc("node_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the node in core-seconds", nil, nil)
	nodeMemory = prometheus.NewDesc("node_memory_working_set_bytes", "Current working set of the node in bytes", nil, nil)
	nodeSwap   = prometheus.NewDesc("node_swap_usage_bytes",
		"Current swap usage of the node in bytes. Reported only on non-windows systems", nil, nil)
	podCPU = prometheus.NewDesc("pod_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the pod in core-seconds", ofPod, nil)
	podMemory = prometheus.NewDesc("pod_memory_working_set_bytes", "Current working set of the pod in bytes", ofPod, nil)
	podSwap   = prometheus.NewDesc("pod_swap_usage_bytes",
		"Current amount of the pod swap usage in bytes. Reported only on non-windows systems", ofPod, nil)
	containerStart = prometheus.NewDesc("container_start_time_seconds",
		"Start time of the container since unix epoch in seconds", ofContainer, nil)
	containerCPU = prometheus.NewDesc("container_cpu_usage_seconds_total",
		"Cumulative cpu time consumed by the container in core-seconds", ofContainer, nil)
	containerMemory = prometheus.NewDesc("container_memory_working_set_bytes",
		"Current working set of the container in bytes", ofContainer, nil)
	containerSwap = prometheus.NewDesc("container_swap_usage_bytes",
		"Current amount of the container swap usage in bytes. Reported only on non-windows systems", ofContainer, nil)
	containerSwapLimit = prometheus.NewDesc("container_swap_limit_bytes",
		"Current amount of the container swap limit in bytes. Reported only on non-windows systems", ofContainer, nil)
	resourceScrapeError = prometheus.NewDesc("resource_scrape_error",
		"1 if there was an error while getting container metrics, 0 otherwise", nil, nil)
)

// Resource returns the handler of /metrics/resource.
func Resource(from Summarizer, logger *slog.Logger) http.Handler {
	return handler(func(ctx context.Context, to emit) {
		failed := 0.0
		summary, err := from.Summary(ctx, true)
		if err != nil {
			failed = 1
			logger.Warn("reading what the node uses failed", "err", err)
		} else {
			node(&summary.Node, to)
			for i := range summary.Pods {
				pod(&summary.Pods[i], to)
			}
		}
		to(prometheus.MustNewConstMetric(resourceScrapeError, prometheus.GaugeValue, failed))
	}, logger)
}

func node(s *statsapi.NodeStats, to emit) {
	cpu(to, nodeCPU, s.CPU)
	memory(to, nodeMemory, s.Memory)
	if s.Swap != nil {
		gauge(to, nodeSwap, s.Swap.SwapUsageBytes, s.Swap.Time.Time)
	}
}

func pod(s *statsapi.PodStats, to emit) {
	name, namespace := s.PodRef.Name, s.PodRef.Namespace
	for i := range s.Containers {
		c := &s.Containers[i]
		if c.StartTime.Unix() > 0 {
			to(prometheus.MustNewConstMetric(containerStart, prometheus.GaugeValue, seconds(c.StartTime.Time), c.Name, name, namespace))
		}
		cpu(to, containerCPU, c.CPU, c.Name, name, namespace)
		memory(to, containerMemory, c.Memory, c.Name, name, namespace)
		if c.Swap == nil {
			continue
		}
		gauge(to, containerSwap, c.Swap.SwapUsageBytes, c.Swap.Time.Time, c.Name, name, namespace)
		if limit := c.Swap.SwapAvailableBytes; limit != nil {
			all := *limit
			if c.Swap.SwapUsageBytes != nil {
				all += *c.Swap.SwapUsageBytes
			}
			gauge(to, containerSwapLimit, &all, c.Swap.Time.Time, c.Name, name, namespace)
		}
	}
	cpu(to, podCPU, s.CPU, name, namespace)
	memory(to, podMemory, s.Memory, name, namespace)
	if s.Swap != nil {
		gauge(to, podSwap, s.Swap.SwapUsageBytes, s.Swap.Time.Time, name, namespace)
	}
}

// cpu emits CPU time in seconds of one core, if it is known.
func cpu(to emit, desc *prometheus.Desc, s *statsapi.CPUStats, labels ...string) {
	if s != nil && s.UsageCoreNanoSeconds != nil {
		at(to, s.Time.Time, prometheus.MustNewConstMetric(desc, prometheus.CounterValue, core(*s.UsageCoreNanoSeconds), labels...))
	}
}

// memory emits a working set in bytes, if it is known.
func memory(to emit, desc *prometheus.Desc, s *statsapi.MemoryStats, labels ...string) {
	if s != nil {
		gauge(to, desc, s.WorkingSetBytes, s.Time.Time, labels...)
	}
}

// gauge emits a number, if it is known.
func gauge(to emit, desc *prometheus.Desc, number *uint64, when time.Time, labels ...string) {
	if number != nil {
		at(to, when, prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(*number), labels...))
	}
}

// at emits a metric with the time of its sample.
func at(to emit, when time.Time, m prometheus.Metric) {
	if !when.IsZero() {
		m = prometheus.NewMetricWithTimestamp(when, m)
	}
	to(m)
}
