package agent_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestMetrics checks the agent's metrics for a node with a pod, and for one without.
func TestMetrics(t *testing.T) {
	w := newWorld(t)
	w.metrics = prometheus.NewRegistry()
	w.runtime.Measure(w.metrics)
	w.start()
	shows := func(lines ...string) func() string {
		return func() string {
			recorder := httptest.NewRecorder()
			promhttp.HandlerFor(w.metrics, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			shown := recorder.Body.String()
			for _, line := range lines {
				if !strings.Contains(shown, "\n"+line) {
					return line + " is not shown in\n" + shown
				}
			}
			return ""
		}
	}
	w.eventually("an empty node", shows(
		`kubelet_node_name{node="`+nodeName+`"} 1`, "kubelet_running_pods 0\n", "kubelet_pleg_last_seen_seconds ",
		`kubelet_runtime_operations_total{operation_type="list_podsandbox"} `,
	))
	w.create(newPod("web"))
	w.until("web", "ready", ready)
	w.eventually("a node with a pod", shows(
		"kubelet_running_pods 1\n", `kubelet_running_containers{container_state="running"} 1`, `kubelet_running_containers{container_state="exited"} 0`,
		"kubelet_pod_start_duration_seconds_count 1\n",
		`kubelet_runtime_operations_total{operation_type="run_podsandbox"} 1`, `kubelet_runtime_operations_duration_seconds_count{operation_type="start_container"} 1`,
	))
	w.debug("web", "debugger", func(*corev1.EphemeralContainer) {})
	w.eventually("a pod that is debugged", shows("kubelet_managed_ephemeral_containers 1\n", `kubelet_running_containers{container_state="running"} 2`))
	if err := w.pods().Delete(t.Context(), "default", "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.eventually("an empty node again", shows("kubelet_running_pods 0\n", `kubelet_running_containers{container_state="running"} 0`, "kubelet_managed_ephemeral_containers 0\n"))
}
