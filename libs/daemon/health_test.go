package daemon

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestHealth(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "hops_total", Help: "Hops."})
	registry.MustRegister(counter)
	counter.Add(3)
	waiting := errors.New("waiting for NATS")
	h := &Health{
		Gatherer: registry, Check: func(context.Context) error { return waiting },
		Debug: map[string]http.Handler{"/debug/sheep": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "three")
		})},
	}
	server := httptest.NewServer(h.handler())
	defer server.Close()
	check := func(path string, code int, body string) {
		t.Helper()
		res, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		got, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != code || !strings.Contains(string(got), body) {
			t.Errorf("%s: got %d %q, want %d %q", path, res.StatusCode, got, code, body)
		}
	}
	check("/livez", http.StatusOK, "ok")
	check("/readyz", http.StatusServiceUnavailable, "waiting for NATS")
	waiting = nil
	check("/readyz", http.StatusOK, "ok")
	check("/metrics", http.StatusOK, "hops_total 3")
	check("/debug/sheep", http.StatusOK, "three")
	check("/debug/goats", http.StatusNotFound, "")
}

// TestDebugFromHere checks that debug handlers serve only clients on the same machine.
func TestDebugFromHere(t *testing.T) {
	health := &Health{Gatherer: prometheus.NewRegistry(), Debug: map[string]http.Handler{
		"/debug/sheep": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "baa") }),
	}}
	for from, want := range map[string]int{
		"127.0.0.1:1": 200, "[::1]:1": 200, "[::ffff:127.0.0.1]:1": 200, "192.0.2.1:1": 403, "[2001:db8::1]:1": 403, "": 403,
	} {
		request := httptest.NewRequest(http.MethodGet, "/debug/sheep", nil)
		request.RemoteAddr = from
		recorder := httptest.NewRecorder()
		health.handler().ServeHTTP(recorder, request)
		if recorder.Code != want || (recorder.Body.String() == "baa") != (want == 200) {
			t.Errorf("from %q: got %d %s", from, recorder.Code, recorder.Body)
		}
	}
}
