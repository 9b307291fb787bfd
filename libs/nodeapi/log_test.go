package nodeapi_test

import (
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/nodeapi"
)

// TestLogQuery checks that a node reads the options that an apiserver wrote: their versions may differ.
func TestLogQuery(t *testing.T) {
	seven, stream := int64(7), "Stdout"
	since := metav1.NewTime(time.Date(2026, 11, 27, 1, 2, 3, 0, time.UTC))
	full := &corev1.PodLogOptions{
		Follow: true, Previous: true, Timestamps: true, TailLines: &seven, SinceSeconds: &seven, LimitBytes: &seven,
		SinceTime: &since, Stream: &stream,
	}
	if got, want := nodeapi.LogQuery(full).Encode(), "follow=true&limitBytes=7&previous=true&sinceSeconds=7&sinceTime=2026-11-27T01%3A02%3A03Z"+
		"&stream=Stdout&tailLines=7&timestamps=true"; got != want {
		t.Errorf("got the query %s, want %s", got, want)
	}
	for _, opts := range []*corev1.PodLogOptions{{}, {TailLines: new(int64)}, full} {
		if got, err := nodeapi.LogOptions(nodeapi.LogQuery(opts)); err != nil || !apiequality.Semantic.DeepEqual(got, opts) {
			t.Errorf("read %+v (%v), want %+v", got, err, opts)
		}
	}
	for _, query := range []string{"follow=maybe", "tailLines=many", "limitBytes=-1", "sinceTime=yesterday"} {
		values, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := nodeapi.LogOptions(values); err == nil {
			t.Errorf("%s: read as %+v", query, got)
		}
	}
}

func TestURL(t *testing.T) {
	target := nodeapi.Target{Namespace: "ns", Pod: "web", UID: "u", Container: "c"}
	query := url.Values{"command": {"sh", "-c"}, "uid": {"other"}}
	if got := target.URL(nodeapi.Exec, query).String(); got != "http://node/exec/ns/web/c?command=sh&command=-c&uid=u" {
		t.Errorf("got %s", got)
	}
	if query.Get("uid") != "other" {
		t.Error("the given query has changed")
	}
	target.Container = ""
	if got := target.URL(nodeapi.PortForward, nil).String(); got != "http://node/portForward/ns/web?uid=u" {
		t.Errorf("got %s", got)
	}
}
