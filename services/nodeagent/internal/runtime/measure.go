package runtime

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/garboard/garboard/libs/metric"
)

// operations maps the names of CRI calls to the kubelet's operation names (pkg/kubelet/kuberuntime,
// instrumented_services.go). Other calls are counted under their own names.
var operations = map[string]string{
	"Version":                  "version",
	"Status":                   "status",
	"RunPodSandbox":            "run_podsandbox",
	"StopPodSandbox":           "stop_podsandbox",
	"RemovePodSandbox":         "remove_podsandbox",
	"PodSandboxStatus":         "podsandbox_status",
	"ListPodSandbox":           "list_podsandbox",
	"CreateContainer":          "create_container",
	"StartContainer":           "start_container",
	"StopContainer":            "stop_container",
	"RemoveContainer":          "remove_container",
	"ContainerStatus":          "container_status",
	"ListContainers":           "list_containers",
	"ReopenContainerLog":       "reopen_container_log",
	"ExecSync":                 "exec_sync",
	"Exec":                     "exec",
	"Attach":                   "attach",
	"PortForward":              "port_forward",
	"UpdateContainerResources": "update_container",
	"PullImage":                "pull_image",
	"ImageStatus":              "image_status",
	"ListImages":               "list_images",
	"RemoveImage":              "remove_image",
	"ImageFsInfo":              "image_fs_info",
	"ListPodSandboxStats":      "list_podsandbox_stats",
	"ListContainerStats":       "list_container_stats",
}

// measure counts and times the calls to a runtime, once it has metrics to record into.
type measure struct {
	into atomic.Pointer[operationMetrics]
}

type operationMetrics struct {
	total, failures *prometheus.CounterVec
	duration        *prometheus.HistogramVec
}

// Measure counts and times every call from now on, in metrics with the kubelet's names.
func (c *Client) Measure(registerer prometheus.Registerer) {
	label := []string{"operation_type"}
	c.measure.into.Store(&operationMetrics{
		total: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_total", Help: "Cumulative number of runtime operations by operation type.",
		}, label)),
		failures: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_errors_total", Help: "Cumulative number of runtime operation errors by operation type.",
		}, label)),
		duration: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_runtime_operations_duration_seconds", Help: "Duration in seconds of runtime operations. Broken down by operation type.",
			Buckets: prometheus.ExponentialBuckets(.005, 2.5, 14),
		}, label)),
	})
}

// call is a gRPC interceptor.
func (m *measure) call(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn,
	invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	into := m.into.Load()
	if into == nil {
		return invoke(ctx, method, request, reply, conn, opts...)
	}
	name := method[strings.LastIndexByte(method, '/')+1:]
	if known := operations[name]; known != "" {
		name = known
	}
	began := time.Now()
	err := invoke(ctx, method, request, reply, conn, opts...)
	into.total.WithLabelValues(name).Inc()
	into.duration.WithLabelValues(name).Observe(time.Since(began).Seconds())
	if err != nil {
		into.failures.WithLabelValues(name).Inc()
	}
	return err
}
