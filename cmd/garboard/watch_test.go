package main

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/changefeed"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
)

func TestWhatIsWatched(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	table := scheme.New()
	pods, nodes := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "nodes"}
	deployments := schema.GroupResource{Group: "apps", Resource: "deployments"}
	for _, tc := range []struct {
		name string
		w    watcher
		args []string
		want changefeed.Config
		err  string
	}{
		{name: "the kubeconfig's namespace", args: []string{"pods"}, want: changefeed.Config{Resource: pods, View: fabric.View{Namespace: "current"}}},
		{name: "a namespace and a name", w: watcher{namespace: "a"}, args: []string{"deploy", "x"},
			want: changefeed.Config{Resource: deployments, View: fabric.View{Namespace: "a", Name: "x"}}},
		{name: "a group", w: watcher{all: true}, args: []string{"deployment.apps"}, want: changefeed.Config{Resource: deployments}},
		{name: "cluster-wide", w: watcher{namespace: "a"}, args: []string{"nodes", "n1"}, want: changefeed.Config{Resource: nodes, View: fabric.View{Name: "n1"}}},
		{name: "a node's", w: watcher{all: true, node: "n1"}, args: []string{"po"}, want: changefeed.Config{Resource: pods, View: fabric.View{Scope: "n1"}}},
		{name: "for a while", w: watcher{all: true, since: "10m"}, args: []string{"pods"},
			want: changefeed.Config{Resource: pods, History: true, Since: now.Add(-10 * time.Minute)}},
		{name: "from a time", w: watcher{all: true, since: "2026-01-01T00:00:00Z", history: true}, args: []string{"pods"},
			want: changefeed.Config{Resource: pods, History: true, Since: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Once: true}},
		{name: "from a revision", w: watcher{all: true, since: "12"}, args: []string{"pods"},
			want: changefeed.Config{Resource: pods, History: true, After: 12}},
		{name: "all", w: watcher{all: true, since: "all", resolve: true}, args: []string{"pods"},
			want: changefeed.Config{Resource: pods, History: true, Resolve: true}},
		{name: "no such resource", args: []string{"sheep"}, err: `doesn't have a resource type "sheep"`},
		{name: "a review", args: []string{"tokenreviews"}, err: "has no messages of its own"},
		{name: "all and one", w: watcher{all: true, namespace: "a"}, args: []string{"pods"}, err: "-A cannot be used with"},
		{name: "a node's what", w: watcher{node: "n1"}, args: []string{"secrets"}, err: "do not belong to a node"},
		{name: "a time that is none", w: watcher{since: "-5m"}, args: []string{"pods"}, err: "--since"},
		{name: "two starting points", w: watcher{since: "5m", objects: true}, args: []string{"pods"}, err: "cannot be used together"},
		{name: "nothing at all", w: watcher{history: true}, args: []string{"pods"}, err: "has no output"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.w.current = "current"
			got, err := tc.w.config(table, tc.args, now)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("the error is %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %+v, %v; want %+v", got, err, tc.want)
			}
		})
	}
}

func TestWatchOutput(t *testing.T) {
	w := watcher{output: "yaml"}
	if _, err := w.writer(t.Output(), scheme.New()); err == nil {
		t.Error("yaml is written")
	}
}
