package clients_test

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// lives is a sink that records the histories of its whole views.
type lives struct {
	informer.SinkDefaults
	mu    sync.Mutex
	views []string
}

func (l *lives) Replace(at fabric.Position, _ []informer.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.views = append(l.views, at.History.String())
}

func (l *lives) Apply([]informer.Change, int64) {}

func (l *lives) has(views ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, view := range views {
		if i >= len(l.views) || l.views[i] != view {
			return false
		}
	}
	return true
}

// TestHistoryOverHTTP: lists and watches name the history that they belong to, over each transport,
// and a client that follows over HTTP switches to a new history by getting a whole view of it.
func TestHistoryOverHTTP(t *testing.T) {
	t.Parallel()
	s := harness.StartWithTokens(t)
	table := scheme.New()
	etcd, err := store.Open(t.Context(), store.Config{Servers: s.Etcd, Table: table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = etcd.Close() }()
	kind := scheme.For[*corev1.ConfigMap](table)
	clients := map[string]*client.HTTP{}
	for name, config := range map[string]*rest.Config{
		"HTTPS": s.WithToken(harness.MasterToken), "NATS": s.Carried(t, s.WithToken(harness.MasterToken)),
	} {
		if clients[name], err = client.New(config, table); err != nil {
			t.Fatal(err)
		}
	}
	// said returns the histories of a list, of a watch, and of a watch that begins with a list.
	said := func(c *client.HTTP) (of [3]fabric.History) {
		t.Helper()
		call := client.Call{Verb: "list", Kind: kind, Namespace: "default", Options: &metav1.ListOptions{}, History: &of[0]}
		if err := c.Do(t.Context(), call, kind.NewList()); err != nil {
			t.Fatal(err)
		}
		for i, opts := range []*metav1.ListOptions{
			{Watch: true}, {Watch: true, SendInitialEvents: new(true), ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true},
		} {
			call.Verb, call.Options, call.History = "watch", opts, &of[i+1]
			watching, err := c.Watch(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			watching.Stop()
			for range watching.ResultChan() {
				continue
			}
		}
		return of
	}
	old, err := etcd.History(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range clients {
		if got := said(c); got != [3]fabric.History{old, old, old} {
			t.Errorf("%s: a list, a watch and both have the histories %v, etcd has %v", name, got, old)
		}
	}

	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	sink := &lives{}
	follower := listwatch.New(clients["HTTPS"], nil).Follower(kind, informer.View{}, sink)
	running.Go(func() {
		if err := follower.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	harness.Eventually(t, "the view is read", func() bool { return sink.has(old.String()) })
	renewed, err := etcd.RenewHistory(t.Context(), old)
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the view is read in the new history", func() bool { return sink.has(old.String(), renewed.String()) })
	for name, c := range clients {
		for deadline := time.Now().Add(harness.Patience); ; {
			got := said(c)
			if got == [3]fabric.History{renewed, renewed, renewed} {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: a list, a watch and both have the histories %v, etcd has %v", name, got, renewed)
			}
		}
	}
}
