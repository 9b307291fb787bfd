package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	informers "github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/report"
)

func row(service, replica, resource string, change func(*report.Watcher)) report.Watcher {
	r := report.Watcher{Status: informers.Status{Service: service, Resource: resource, Started: true, Synced: true, Via: informers.ViaNATS, Revision: 90}, Replica: replica, User: "user-" + replica, Version: "v1"}
	if change != nil {
		change(&r)
	}
	return r
}

func TestWatchers(t *testing.T) {
	rows := []report.Watcher{
		row("scheduler", "s1", "pods", nil),
		row("controllers", "c2", "deployments", func(r *report.Watcher) { r.Group, r.Via, r.Why = "apps", informers.ViaHTTP, "NATS is unreachable" }),
		row("nodeagent/n", "n", "pods", func(r *report.Watcher) { r.View.Scope, r.Started = "n", false }),
		row("controllers", "c1", "pods", func(r *report.Watcher) {
			r.LagRevisions, r.LagSeconds, r.Queued, r.Handlers = 7, 3.14, 2, []informers.Handler{{Pending: 1}, {Pending: 5}}
		}),
		row("controllers", "c\x1b[2J", "secrets", func(r *report.Watcher) {
			r.View.Namespace, r.View.Name, r.Synced, r.SilentSeconds = "a", "b", false, -1
		}),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/prefix"+report.WatchersPath {
			t.Errorf("asked for %s", r.URL)
		}
		if err := json.NewEncoder(w).Encode(rows); err != nil {
			t.Error(err)
		}
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL + "/prefix"}
	var out strings.Builder
	if err := showWatchers(t.Context(), &out, config, ""); err != nil {
		t.Fatal(err)
	}
	want := `SERVICE REPLICA RESOURCE VIEW REVISION LAG STATE QUEUE
controllers c1 pods all 90 7 (3.1s) synced via NATS 7
controllers c?[2J secrets namespace=a,name=b 90 0 reading via NATS 0
controllers c2 deployments.apps all 90 0 synced via HTTP (NATS is unreachable) 0
nodeagent/n n pods node=n 90 0 not started 0
scheduler s1 pods all 90 0 synced via NATS 0
`
	if got := regexp.MustCompile(` +`).ReplaceAllString(out.String(), " "); got != want {
		t.Errorf("the table is\n%s\nwant\n%s", got, want)
	}
	out.Reset()
	if err := showWatchers(t.Context(), &out, config, "wide"); err != nil || !strings.Contains(out.String(), "never heard") || !strings.Contains(out.String(), "user-s1") {
		t.Errorf("the wide table is\n%s(%v)", out.String(), err)
	}
	out.Reset()
	var again []report.Watcher
	if err := showWatchers(t.Context(), &out, config, "json"); err != nil || json.Unmarshal([]byte(out.String()), &again) != nil || len(again) != 5 || again[0].Replica != "c1" {
		t.Errorf("the JSON is %s (%v)", out.String(), err)
	}
	rows = []report.Watcher{}
	if err := showWatchers(t.Context(), &out, config, ""); err == nil || !strings.Contains(err.Error(), "garboard doctor") {
		t.Errorf("without an answer the error is %v", err)
	}
}
