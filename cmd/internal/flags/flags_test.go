package flags

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// sheep is a service that follows pods.
type sheep struct{}

func (sheep) Run(context.Context) error   { return nil }
func (sheep) Ready(context.Context) error { return nil }
func (sheep) Watchers() []watcher.Status {
	return []watcher.Status{{Service: "sheep", Resource: "pods", Revision: 7}}
}

func TestDiagnosticsShowWatchers(t *testing.T) {
	recorder := httptest.NewRecorder()
	handler := NewService("sheep").diagnostics(sheep{}).Debug[watcher.Path]
	if handler == nil {
		t.Fatalf("nothing is served at %s", watcher.Path)
	}
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, watcher.Path, nil))
	var rows []watcher.Status
	if err := json.Unmarshal(recorder.Body.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].Service != "sheep" || rows[0].Revision != 7 {
		t.Errorf("the watchers are %+v", rows)
	}
}
