package filters

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/services/apiserver/internal/http/logid"
)

// TestLogLines: every log line about a request has the ID that the client gets, and at debug level
// there is one for each request.
func TestLogLines(t *testing.T) {
	for name, c := range map[string]struct {
		given string
		want  map[string]any // of the last line
		lines int
		path  string
	}{
		"the server's ID": {path: "/livez", lines: 1, want: map[string]any{"msg": "answered a request", "method": "GET", "path": "/livez", "code": 200.0, "user": "system:anonymous"}},
		"the client's ID": {path: "/livez", given: "mine", lines: 1, want: map[string]any{"msg": "answered a request", "code": 200.0, "audit-ID": "mine"}},
		"a panic":         {path: "/livez?panic", given: "mine", lines: 2, want: map[string]any{"msg": "answered a request", "code": 500.0, "audit-ID": "mine"}},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			chain := newChain(t, prometheus.NewRegistry(), func(w http.ResponseWriter, r *http.Request) {
				if r.URL.RawQuery == "panic" {
					panic("a bug")
				}
				w.WriteHeader(http.StatusOK)
			})
			chain.Logger = slog.New(logid.Handler(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			r, w := httptest.NewRequest(http.MethodGet, c.path, nil), httptest.NewRecorder()
			if c.given != "" {
				r.Header.Set("Audit-ID", c.given)
			}
			chain.ServeHTTP(w, r)
			told := w.Header().Get("Audit-Id")
			if told == "" || c.given != "" && told != c.given {
				t.Errorf("the client gets the ID %q", told)
			}
			var last map[string]any
			lines := 0
			for line := range strings.Lines(log.String()) {
				lines++
				last = nil
				if err := json.Unmarshal([]byte(line), &last); err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				if last["audit-ID"] != told || last["level"] == nil || last["time"] == nil {
					t.Errorf("%s lacks the ID %s, its level or its time", line, told)
				}
			}
			if lines != c.lines {
				t.Errorf("got %d lines, want %d: %s", lines, c.lines, log.String())
			}
			for key, want := range c.want {
				if last[key] != want {
					t.Errorf("%s is %v, want %v", key, last[key], want)
				}
			}
		})
	}
}
