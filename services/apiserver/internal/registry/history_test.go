package registry_test

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// TestHistoryOfReads checks that each kind of list and watch names its history, and that a watch
// does not outlive its history.
func TestHistoryOfReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	configs := resource[*corev1.ConfigMap](w)
	for _, name := range []string{"a", "b", "c"} {
		if _, err := configs.Create(t.Context(), "default", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	read := func(opts metav1.ListOptions) *registry.Listing {
		t.Helper()
		listing, err := configs.Read(t.Context(), "default", opts)
		if err != nil {
			t.Fatal(err)
		}
		return listing
	}
	is := func(want fabric.History) {
		t.Helper()
		first := read(metav1.ListOptions{Limit: 2})
		at := strconv.FormatInt(first.Revision, 10)
		for name, listing := range map[string]*registry.Listing{
			"now, the first page":         first,
			"now, the second page":        read(metav1.ListOptions{Limit: 2, Continue: first.Continue}),
			"whatever is cached":          read(metav1.ListOptions{ResourceVersion: "0"}),
			"not older":                   read(metav1.ListOptions{ResourceVersion: at, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan}),
			"exactly, from etcd's past":   read(metav1.ListOptions{ResourceVersion: at, ResourceVersionMatch: metav1.ResourceVersionMatchExact}),
			"selected by a label":         read(metav1.ListOptions{LabelSelector: "a=b"}),
			"exactly, but one is to come": read(metav1.ListOptions{Limit: 1, ResourceVersion: at, ResourceVersionMatch: metav1.ResourceVersionMatchExact}),
		} {
			if listing.History != want {
				t.Errorf("%s: the history is %v, etcd's is %v", name, listing.History, want)
			}
		}
		for name, opts := range map[string]metav1.ListOptions{
			"now": {}, "after a revision": {ResourceVersion: at},
			"a list": {SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true},
		} {
			watch, err := configs.Watch(t.Context(), "default", opts)
			if err != nil {
				t.Fatal(err)
			}
			if watch.History() != want {
				t.Errorf("a watch, %s: the history is %v, etcd's is %v", name, watch.History(), want)
			}
			watch.Stop()
		}
	}
	old, err := w.Store.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	is(old)
	failed, err := configs.Watch(t.Context(), "default", metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer failed.Stop()
	if failed.Failure() != nil && failed.History() != (fabric.History{}) {
		t.Errorf("a watch that only reports an error has the history %v", failed.History())
	}

	watching := follow(t, configs, "default", metav1.ListOptions{})
	defer watching.Stop()
	renewed, err := w.Store.RenewHistory(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	timeout := time.After(time.Minute)
	for ended := false; !ended; {
		select {
		case <-watching.ended:
			ended = true
		case <-watching.ResultChan():
		case <-timeout:
			t.Fatal("the watch continues in a history that is over")
		}
	}
	for w.Feeds.Of(configs.Kind()).History() != renewed {
		select {
		case <-timeout:
			t.Fatal("the feed stays in a history that is over")
		case <-time.After(10 * time.Millisecond):
		}
	}
	is(renewed)
}
