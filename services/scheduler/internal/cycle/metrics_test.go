package cycle_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// shows checks that the metrics contain the given lines.
func (p *plane) shows(t *testing.T, lines ...string) {
	t.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(p.metrics, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	shown := "\n" + recorder.Body.String()
	for _, line := range lines {
		if !strings.Contains(shown, "\n"+line+"\n") {
			t.Errorf("%s is not among the metrics:%s", line, shown)
		}
	}
}

// TestMetrics checks that the metrics show the present state, not that of the last pod tried, and
// that a scheduler that no longer leads has no pending pods.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := start(t, node("small", "1"))
		settle()
		p.shows(t, `scheduler_pending_pods{queue="unschedulable"} 0`, `scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 0`)
		p.create(t, pod("fits", "1"), pod("large", "2"))
		settle()
		p.shows(t, `scheduler_pending_pods{queue="active"} 0`, `scheduler_pending_pods{queue="backoff"} 0`, `scheduler_pending_pods{queue="unschedulable"} 1`,
			`scheduler_schedule_attempts_total{profile="default-scheduler",result="scheduled"} 1`,
			`scheduler_schedule_attempts_total{profile="default-scheduler",result="unschedulable"} 1`,
			`scheduler_pod_scheduling_sli_duration_seconds_count{attempts="1"} 1`)
		p.api.Load(node("large", "4"))
		time.Sleep(5 * time.Second)
		p.on(t, "large", "large")
		p.shows(t, `scheduler_pending_pods{queue="unschedulable"} 0`, `scheduler_pod_scheduling_sli_duration_seconds_count{attempts="2"} 1`,
			`scheduler_pod_scheduling_attempts_sum 3`)
		p.create(t, pod("never", "9"))
		settle()
		p.shows(t, `scheduler_pending_pods{queue="unschedulable"} 1`)
		p.stop()
		p.shows(t, `scheduler_pending_pods{queue="unschedulable"} 0`)
	})
}
