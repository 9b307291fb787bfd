package resourcemetrics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/stats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake reports what a test has set.
type fake struct {
	summary *statsapi.Summary
	pods    []stats.Pod
	err     error
}

func (f fake) Summary(_ context.Context, only bool) (*statsapi.Summary, error) {
	if !only {
		return nil, errors.New("too much was asked for")
	}
	return f.summary, f.err
}

func (f fake) Pods(context.Context) ([]stats.Pod, error) { return f.pods, nil }

func ptr(v uint64) *uint64 {
	p := new(uint64)
	*p = v
	return p
}

var when = time.Unix(1700000000, 0)

// world is a node with one pod, of one container.
func world() fake {
	at := metav1.NewTime(when)
	cpu := func(v uint64) *statsapi.CPUStats { return &statsapi.CPUStats{Time: at, UsageCoreNanoSeconds: ptr(v)} }
	memory := func(v uint64) *statsapi.MemoryStats {
		return &statsapi.MemoryStats{Time: at, WorkingSetBytes: ptr(v), UsageBytes: ptr(v + 1), RSSBytes: ptr(v + 2)}
	}
	swap := &statsapi.SwapStats{Time: at, SwapUsageBytes: ptr(5), SwapAvailableBytes: ptr(6)}
	one := statsapi.ContainerStats{Name: "main", StartTime: metav1.NewTime(when.Add(-time.Minute)), CPU: cpu(3e9), Memory: memory(300), Swap: swap}
	usage := runtime.ContainerUsage{
		ID: "id-main", Name: "main",
		CPU:    &runtime.CPUUsage{At: when, CoreNanoSeconds: ptr(3e9), Pressure: &runtime.Pressure{Some: runtime.Stall{Total: 2e6}, Full: runtime.Stall{Total: 1e6}}},
		Memory: &runtime.MemoryUsage{At: when, WorkingSet: ptr(300), Usage: ptr(301), RSS: ptr(302), PageFaults: ptr(9), MajorPageFaults: ptr(1)},
		Swap:   &runtime.SwapUsage{At: when, Usage: ptr(5)},
	}
	return fake{
		summary: &statsapi.Summary{
			Node: statsapi.NodeStats{CPU: cpu(1e9), Memory: memory(100), Swap: swap},
			Pods: []statsapi.PodStats{
				{PodRef: statsapi.PodReference{Name: "web", Namespace: "default"}, CPU: cpu(2e9), Memory: memory(200), Swap: swap, Containers: []statsapi.ContainerStats{one}},
				{PodRef: statsapi.PodReference{Name: "idle", Namespace: "default"}, Containers: []statsapi.ContainerStats{{Name: "quiet"}}},
			},
		},
		pods: []stats.Pod{{
			State: &podstate.Pod{Name: "web", Namespace: "default", UID: "u"}, Sandbox: &runtime.Sandbox{ID: "box"},
			Usage: runtime.SandboxUsage{
				ID: "box", CPU: &runtime.CPUUsage{At: when, CoreNanoSeconds: ptr(4e9)}, Processes: ptr(2),
				Network: &runtime.NetworkUsage{
					At: when, Default: runtime.InterfaceUsage{Name: "eth0", RxBytes: ptr(10), TxBytes: ptr(20), RxErrors: ptr(1), TxErrors: ptr(2)},
					Interfaces: []runtime.InterfaceUsage{{Name: "eth0", RxBytes: ptr(10)}, {Name: "eth1", RxBytes: ptr(30)}},
				},
			},
			Containers: []stats.Container{{
				State: &runtime.Container{
					ID: "id-main", Name: "main", Image: "nginx:1", StartedAt: when,
					Resources: &runtime.Resources{CPUShares: 512, CPUPeriod: 100000, CPUQuota: 50000, MemoryLimit: 1 << 20},
				},
				Usage: &usage,
			}},
		}},
	}
}

// scrape returns the samples that a handler serves.
func scrape(t *testing.T, h http.Handler) []string {
	t.Helper()
	recorder := httptest.NewRecorder()
	h.ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	if recorder.Code != http.StatusOK || !strings.HasPrefix(recorder.Header().Get("Content-Type"), "text/plain") {
		t.Fatalf("got %d %s %s", recorder.Code, recorder.Header(), recorder.Body)
	}
	var samples []string
	for line := range strings.Lines(recorder.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	return samples
}

var quiet = slog.New(slog.DiscardHandler)

// TestResource checks each metric of /metrics/resource, with its labels and time.
func TestResource(t *testing.T) {
	got := scrape(t, Resource(world(), quiet))
	want := strings.Split(`container_cpu_usage_seconds_total{container="main",namespace="default",pod="web"} 3 1700000000000
container_memory_working_set_bytes{container="main",namespace="default",pod="web"} 300 1700000000000
container_start_time_seconds{container="main",namespace="default",pod="web"} 1.69999994e+09
container_swap_limit_bytes{container="main",namespace="default",pod="web"} 11 1700000000000
container_swap_usage_bytes{container="main",namespace="default",pod="web"} 5 1700000000000
node_cpu_usage_seconds_total 1 1700000000000
node_memory_working_set_bytes 100 1700000000000
node_swap_usage_bytes 5 1700000000000
pod_cpu_usage_seconds_total{namespace="default",pod="web"} 2 1700000000000
pod_memory_working_set_bytes{namespace="default",pod="web"} 200 1700000000000
pod_swap_usage_bytes{namespace="default",pod="web"} 5 1700000000000
resource_scrape_error 0`, "\n")
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestContainers checks each metric of /metrics/cadvisor.
func TestContainers(t *testing.T) {
	node := &corev1.Node{Status: corev1.NodeStatus{
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		NodeInfo: corev1.NodeSystemInfo{MachineID: "m", BootID: "b", SystemUUID: "s"},
	}}
	got := scrape(t, Containers(world(), func() *corev1.Node { return node }, quiet))
	const (
		main    = `container="main",id="",image="nginx:1",name="id-main",namespace="default",pod="web"`
		pod     = `container="",id="",image="",name="",namespace="default",pod="web"`
		sandbox = `container="",id="",image="",interface="ETH",name="box",namespace="default",pod="web"`
		root    = `container="",id="/",image="",name="",namespace="",pod=""`
		machine = `{boot_id="b",machine_id="m",system_uuid="s"}`
		at      = " 1700000000000"
	)
	eth := func(n string) string { return strings.ReplaceAll(sandbox, "ETH", "eth"+n) }
	total := func(labels string) string { return strings.Replace(labels, `",id=`, `",cpu="total",id=`, 1) }
	failure := func(of string) string {
		return strings.Replace(strings.Replace(main, `",id=`, `",failure_type="`+of+`",id=`, 1), `pod="web"`, `pod="web",scope="container"`, 1)
	}
	want := []string{
		"container_cpu_usage_seconds_total{" + total(main) + "} 3" + at,
		"container_cpu_usage_seconds_total{" + total(pod) + "} 4" + at,
		"container_cpu_usage_seconds_total{" + total(root) + "} 1" + at,
		"container_memory_working_set_bytes{" + main + "} 300" + at,
		"container_memory_working_set_bytes{" + root + "} 100" + at,
		"container_memory_usage_bytes{" + main + "} 301" + at,
		"container_memory_usage_bytes{" + root + "} 101" + at,
		"container_memory_rss{" + main + "} 302" + at,
		"container_memory_rss{" + root + "} 102" + at,
		"container_memory_swap{" + main + "} 5" + at,
		"container_memory_failures_total{" + failure("pgfault") + "} 9" + at,
		"container_memory_failures_total{" + failure("pgmajfault") + "} 1" + at,
		"container_pressure_cpu_waiting_seconds_total{" + main + "} 2" + at,
		"container_pressure_cpu_stalled_seconds_total{" + main + "} 1" + at,
		"container_processes{" + pod + "} 2",
		"container_start_time_seconds{" + main + "} 1.7e+09",
		"container_spec_cpu_period{" + main + "} 100000",
		"container_spec_cpu_quota{" + main + "} 50000",
		"container_spec_cpu_shares{" + main + "} 512",
		"container_spec_memory_limit_bytes{" + main + "} 1.048576e+06",
		"container_network_receive_bytes_total{" + eth("0") + "} 10" + at,
		"container_network_receive_bytes_total{" + eth("1") + "} 30" + at,
		"container_network_receive_errors_total{" + eth("0") + "} 1" + at,
		"container_network_transmit_bytes_total{" + eth("0") + "} 20" + at,
		"container_network_transmit_errors_total{" + eth("0") + "} 2" + at,
		"machine_cpu_cores" + machine + " 4",
		"machine_memory_bytes" + machine + " 1.073741824e+09",
		"container_scrape_error 0",
	}
	now := regexp.MustCompile(`^container_last_seen\{.*pod="web"\} [0-9.e+]+$`)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("missing: %s", line)
		}
	}
	for _, line := range got {
		if !slices.Contains(want, line) && !now.MatchString(line) {
			t.Errorf("not expected: %s", line)
		}
	}
}

// TestScrapeErrors checks that a runtime that fails is reported.
func TestScrapeErrors(t *testing.T) {
	broken := world()
	broken.err = errors.New("gone")
	if got := scrape(t, Resource(broken, quiet)); !slices.Equal(got, []string{"resource_scrape_error 1"}) {
		t.Errorf("got %q", got)
	}
	got := scrape(t, Containers(broken, func() *corev1.Node { return &corev1.Node{} }, quiet))
	if !slices.Contains(got, "container_scrape_error 1") || len(got) != 3 {
		t.Errorf("got %q", got)
	}
}

// TestSameName checks that two pods of one name do not hide the others.
func TestSameName(t *testing.T) {
	double := world()
	double.summary.Pods = append(double.summary.Pods, double.summary.Pods[0])
	got := scrape(t, Resource(double, quiet))
	if !slices.Contains(got, "resource_scrape_error 0") || !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "pod_cpu_usage_seconds_total{") }) {
		t.Errorf("got %q", got)
	}
}

// TestNoMachine checks that a machine of unknown size has the size 0, and does not hide its containers.
func TestNoMachine(t *testing.T) {
	got := scrape(t, Containers(world(), func() *corev1.Node { return &corev1.Node{} }, quiet))
	if !slices.Contains(got, `machine_cpu_cores{boot_id="",machine_id="",system_uuid=""} 0`) || !slices.Contains(got, "container_scrape_error 0") {
		t.Errorf("got %q", got)
	}
}
