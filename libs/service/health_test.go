package service

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// shepherd is a service that watches sheep.
type shepherd struct{ unready error }

func (*shepherd) Run(context.Context) error     { return nil }
func (s *shepherd) Ready(context.Context) error { return s.unready }
func (*shepherd) Watchers() []watcher.Status {
	return []watcher.Status{{Service: "shepherd", Resource: "sheep", Revision: 7}}
}

func TestHealth(t *testing.T) {
	registry := prometheus.NewRegistry()
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "hops_total", Help: "Hops."})
	registry.MustRegister(counter)
	counter.Add(3)
	service := &shepherd{unready: errors.New("waiting for NATS")}
	server := httptest.NewServer((&health{gatherer: registry, service: service}).handler())
	defer server.Close()
	check := func(path string, code int, body string) string {
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
		return string(got)
	}
	check("/livez", http.StatusOK, "ok")
	check("/readyz", http.StatusServiceUnavailable, "waiting for NATS")
	service.unready = nil
	check("/readyz", http.StatusOK, "ok")
	check("/metrics", http.StatusOK, "hops_total 3")
	check("/debug/goats", http.StatusNotFound, "")
	var rows []watcher.Status
	if err := json.Unmarshal([]byte(check(watcher.Path, http.StatusOK, "")), &rows); err != nil || len(rows) != 1 || rows[0].Service != "shepherd" || rows[0].Revision != 7 {
		t.Errorf("got the watchers %+v, %v", rows, err)
	}
}

// TestDebugFromHere checks that watchers are shown only to clients on the same machine.
func TestDebugFromHere(t *testing.T) {
	h := &health{gatherer: prometheus.NewRegistry(), service: &shepherd{}}
	for from, want := range map[string]int{
		"127.0.0.1:1": 200, "[::1]:1": 200, "[::ffff:127.0.0.1]:1": 200, "192.0.2.1:1": 403, "[2001:db8::1]:1": 403, "": 403,
	} {
		request := httptest.NewRequest(http.MethodGet, watcher.Path, nil)
		request.RemoteAddr = from
		recorder := httptest.NewRecorder()
		h.handler().ServeHTTP(recorder, request)
		if recorder.Code != want || strings.Contains(recorder.Body.String(), "shepherd") != (want == 200) {
			t.Errorf("from %q: got %d %s", from, recorder.Code, recorder.Body)
		}
	}
}
