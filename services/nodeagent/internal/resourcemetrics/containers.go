package resourcemetrics

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/stats"
)

// Pods reports what the node and its pods use, as the runtime tells it: it is a *stats.Provider.
type Pods interface {
	Summarizer
	Pods(ctx context.Context) ([]stats.Pod, error)
}

// The labels of cAdvisor's metrics. The path of a container's cgroup, which is its id, is not known to CRI:
// it is "/" for the whole machine, and else empty.
var (
	cadvisorLabels = []string{"container", "id", "image", "name", "namespace", "pod"}
	machineLabels  = []string{"boot_id", "machine_id", "system_uuid"}
)

// describe returns a metric of cAdvisor, with further labels.
func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(append([]string{}, cadvisorLabels...), more...), nil)
}

// The metrics of /metrics/cadvisor that CRI has the values for (cAdvisor, lib/metrics).
var (
	usedCPU    = describe("container_cpu_usage_seconds_total", "Cumulative cpu time consumed in seconds.", "cpu")
	workingSet = describe("container_memory_working_set_bytes", "Current working set in bytes.")
	usedMemory = describe("container_memory_usage_bytes", "Current memory usage in bytes, including all memory regardless of when it was accessed")
	rss        = describe("container_memory_rss", "Size of RSS in bytes.")
	swapped    = describe("container_memory_swap", "Container swap usage in bytes.")
	faults     = describe("container_memory_failures_total", "Cumulative count of memory allocation failures.", "failure_type", "scope")
	processes  = describe("container_processes", "Number of processes running inside the container.")
	lastSeen   = describe("container_last_seen", "Last time a container was seen by the exporter")
	started    = describe("container_start_time_seconds", "Start time of the container since unix epoch in seconds.")
	period     = describe("container_spec_cpu_period", "CPU period of the container.")
	quota      = describe("container_spec_cpu_quota", "CPU quota of the container.")
	shares     = describe("container_spec_cpu_shares", "CPU share of the container.")
	limit      = describe("container_spec_memory_limit_bytes", "Memory limit for the container.")

	received       = describe("container_network_receive_bytes_total", "Cumulative count of bytes received", "interface")
	receiveErrors  = describe("container_network_receive_errors_total", "Cumulative count of errors encountered while receiving", "interface")
	sent           = describe("container_network_transmit_bytes_total", "Cumulative count of bytes transmitted", "interface")
	transmitErrors = describe("container_network_transmit_errors_total", "Cumulative count of errors encountered while transmitting", "interface")

	scrapeFailed = prometheus.NewDesc("container_scrape_error", "1 if there was an error while getting container metrics, 0 otherwise", nil, nil)

	machineCores  = prometheus.NewDesc("machine_cpu_cores", "Number of logical CPU cores.", machineLabels, nil)
	machineMemory = prometheus.NewDesc("machine_memory_bytes", "Amount of memory installed on the machine.", machineLabels, nil)
)

// pressures are the metrics of the time that processes waited, some of them and all at once.
var pressures = map[string][2]*prometheus.Desc{
	"cpu":    pressure("cpu", "CPU"),
	"memory": pressure("memory", "memory"),
	"io":     pressure("io", "IO"),
}

func pressure(name, word string) [2]*prometheus.Desc {
	return [2]*prometheus.Desc{
		describe("container_pressure_"+name+"_waiting_seconds_total",
			"Total time duration tasks in the container have waited due to "+word+" congestion."),
		describe("container_pressure_"+name+"_stalled_seconds_total",
			"Total time duration no tasks in the container could make progress due to "+word+" congestion."),
	}
}

// Containers returns the handler of /metrics/cadvisor.
func Containers(from Pods, node func() *corev1.Node, logger *slog.Logger) http.Handler {
	return handler(func(ctx context.Context, to emit) {
		failed := 0.0
		ofMachine(node(), to)
		if err := collect(ctx, from, to); err != nil {
			failed = 1
			logger.Warn("reading what containers use failed", "err", err)
		}
		to(prometheus.MustNewConstMetric(scrapeFailed, prometheus.GaugeValue, failed))
	}, logger)
}

// ofMachine emits the size of the machine.
func ofMachine(node *corev1.Node, to emit) {
	info := node.Status.NodeInfo
	for desc, resource := range map[*prometheus.Desc]corev1.ResourceName{
		machineCores: corev1.ResourceCPU, machineMemory: corev1.ResourceMemory,
	} {
		amount := node.Status.Capacity[resource]
		to(prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(amount.Value()), info.BootID, info.MachineID, info.SystemUUID))
	}
}

// collect emits what the machine, sandboxes and containers use.
func collect(ctx context.Context, from Pods, to emit) error {
	summary, err := from.Summary(ctx, true)
	if err != nil {
		return err
	}
	pods, err := from.Pods(ctx)
	if err != nil {
		return err
	}
	s := subject{to: to, labels: []string{"", "/", "", "", "", ""}}
	if used := summary.Node.CPU; used != nil {
		s.counter(usedCPU, used.UsageCoreNanoSeconds, time.Second, used.Time.Time, "total")
	}
	if used := summary.Node.Memory; used != nil {
		s.gauge(workingSet, used.WorkingSetBytes, used.Time.Time)
		s.gauge(usedMemory, used.UsageBytes, used.Time.Time)
		s.gauge(rss, used.RSSBytes, used.Time.Time)
	}
	for i := range pods {
		ofSandbox(&pods[i], to)
		for _, c := range pods[i].Containers {
			ofOne(&pods[i], c, to)
		}
	}
	return nil
}

// ofSandbox emits what a pod uses as a whole.
func ofSandbox(pod *stats.Pod, to emit) {
	s := subject{to: to, labels: []string{"", "", "", "", pod.State.Namespace, pod.State.Name}}
	s.cpu(pod.Usage.CPU)
	s.memory(pod.Usage.Memory)
	s.waits(pod.Usage.IO)
	if pod.Usage.Processes != nil {
		s.gauge(processes, pod.Usage.Processes, time.Time{})
	}
	network := pod.Usage.Network
	if network == nil {
		return
	}
	s.labels[3] = pod.Sandbox.ID
	interfaces := network.Interfaces
	if network.Default.Name != "" {
		interfaces = append([]runtime.InterfaceUsage{network.Default}, interfaces...)
	}
	seen := map[string]bool{}
	for _, each := range interfaces {
		if seen[each.Name] {
			continue
		}
		seen[each.Name] = true
		s.counter(received, each.RxBytes, 1, network.At, each.Name)
		s.counter(receiveErrors, each.RxErrors, 1, network.At, each.Name)
		s.counter(sent, each.TxBytes, 1, network.At, each.Name)
		s.counter(transmitErrors, each.TxErrors, 1, network.At, each.Name)
	}
}

// ofOne emits what a container uses and may use.
func ofOne(pod *stats.Pod, c stats.Container, to emit) {
	s := subject{to: to, labels: []string{c.State.Name, "", c.State.Image, c.State.ID, pod.State.Namespace, pod.State.Name}}
	s.cpu(c.Usage.CPU)
	s.memory(c.Usage.Memory)
	s.waits(c.Usage.IO)
	if swap := c.Usage.Swap; swap != nil {
		s.gauge(swapped, swap.Usage, swap.At)
	}
	began := c.State.StartedAt
	if began.IsZero() {
		began = c.State.CreatedAt
	}
	s.value(started, seconds(began))
	s.value(lastSeen, float64(time.Now().Unix()))
	if may := c.State.Resources; may != nil {
		s.value(period, float64(may.CPUPeriod))
		if may.CPUQuota != 0 {
			s.value(quota, float64(may.CPUQuota))
		}
		s.value(shares, float64(may.CPUShares))
		s.value(limit, float64(may.MemoryLimit))
	}
}

// subject emits metrics of one thing, which labels name.
type subject struct {
	to     emit
	labels []string
}

func (s subject) with(more []string) []string {
	return append(append([]string{}, s.labels...), more...)
}

// counter emits a sum, in units of which one has unit, if it is known.
func (s subject) counter(desc *prometheus.Desc, sum *uint64, unit time.Duration, when time.Time, more ...string) {
	if sum != nil {
		at(s.to, when, prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(*sum)/float64(unit), s.with(more)...))
	}
}

func (s subject) gauge(desc *prometheus.Desc, number *uint64, when time.Time) {
	gauge(s.to, desc, number, when, s.labels...)
}

func (s subject) value(desc *prometheus.Desc, value float64) {
	s.to(prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, s.labels...))
}

func (s subject) cpu(u *runtime.CPUUsage) {
	if u != nil {
		s.counter(usedCPU, u.CoreNanoSeconds, time.Second, u.At, "total")
		s.pressure("cpu", u.Pressure, u.At)
	}
}

func (s subject) memory(u *runtime.MemoryUsage) {
	if u == nil {
		return
	}
	s.gauge(workingSet, u.WorkingSet, u.At)
	s.gauge(usedMemory, u.Usage, u.At)
	s.gauge(rss, u.RSS, u.At)
	s.counter(faults, u.PageFaults, 1, u.At, "pgfault", "container")
	s.counter(faults, u.MajorPageFaults, 1, u.At, "pgmajfault", "container")
	s.pressure("memory", u.Pressure, u.At)
}

func (s subject) waits(u *runtime.IOUsage) {
	if u != nil {
		s.pressure("io", u.Pressure, u.At)
	}
}

// pressure emits times that the runtime reports in microseconds.
func (s subject) pressure(of string, p *runtime.Pressure, when time.Time) {
	if p == nil {
		return
	}
	const microsecond = time.Second / time.Microsecond
	s.counter(pressures[of][0], &p.Some.Total, microsecond, when)
	s.counter(pressures[of][1], &p.Full.Total, microsecond, when)
}
