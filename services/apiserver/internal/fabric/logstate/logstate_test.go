package logstate_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/logstate"
)

type log struct {
	state bus.LogState
	err   error
}

func (l log) State(context.Context) (bus.LogState, error) { return l.state, l.err }

func TestCollector(t *testing.T) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(logstate.New(map[string]logstate.Log{
		"MAIN":  log{state: bus.LogState{Messages: 7, Bytes: 900, Oldest: time.UnixMilli(1500), Replicas: 3, Current: 2}},
		"EMPTY": log{state: bus.LogState{Replicas: 1, Current: 1}},
		"GONE":  log{err: bus.ErrNoLog},
	}))
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var got strings.Builder
	for line := range strings.Lines(recorder.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			got.WriteString(line)
		}
	}
	want := `garboard_log_bytes{stream="EMPTY"} 0
garboard_log_bytes{stream="MAIN"} 900
garboard_log_messages{stream="EMPTY"} 0
garboard_log_messages{stream="MAIN"} 7
garboard_log_oldest_timestamp_seconds{stream="MAIN"} 1.5
garboard_log_replicas{stream="EMPTY"} 1
garboard_log_replicas{stream="MAIN"} 3
garboard_log_replicas_current{stream="EMPTY"} 1
garboard_log_replicas_current{stream="MAIN"} 2
garboard_log_up{stream="EMPTY"} 1
garboard_log_up{stream="GONE"} 0
garboard_log_up{stream="MAIN"} 1
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}
