package fabric_test

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/fabricsource"
	"github.com/garboard/garboard/libs/informer/persist"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestResumeFromAFile stops informers, changes what they follow, and starts them again: they show
// at once what they knew, receive only what has changed, and end up exact.
func TestResumeFromAFile(t *testing.T) {
	etcd, server := etcdtest.Start(t), bustest.NewServer(t)
	s, _ := replica(t, etcd, server.Connect())
	dir, random := t.TempDir(), rand.New(rand.NewPCG(5, 5))
	churn(t, s, random, 100)

	// life runs an informer and returns how many whole views it read.
	life := func(conn *bus.Conn, over client.Interface, live func(pods informer.SharedInformer[*corev1.Pod])) float64 {
		t.Helper()
		metrics := prometheus.NewRegistry()
		source := persist.New(persist.Config{
			Source: fabricsource.New(fabricsource.Config{Conn: conn, Table: table, Client: over, Logger: quiet, Registerer: metrics}),
			Table:  table, Dir: dir, Logger: quiet,
		})
		pods := informer.NewSharedInformer[*corev1.Pod](informer.Config{Source: source, Table: table, Logger: quiet, Service: "test"}, informer.View{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- pods.Run(ctx) }()
		live(pods)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		families, err := metrics.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if family.GetName() == "garboard_follow_whole_views_total" {
				return family.GetMetric()[0].GetCounter().GetValue()
			}
		}
		return 0
	}
	exact := func(pods informer.SharedInformer[*corev1.Pod]) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		revision, err := s.Revision(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := pods.WaitForRevision(ctx, revision); err != nil {
			t.Fatal(err)
		}
		want := held(at(t, s, revision))
		if got := held(pods.Indexer().List()); !maps.Equal(got, want) {
			t.Errorf("the informer holds\n%v, etcd\n%v", got, want)
		}
	}
	if n := life(server.Connect(), fake.New(table), exact); n < 1 {
		t.Errorf("the first life has read %v whole views", n)
	}
	// Nothing has changed.
	if n := life(server.Connect(), fake.New(table), exact); n != 0 {
		t.Errorf("a life without changes has read %v whole views", n)
	}
	var known map[string]string
	for range 3 {
		churn(t, s, random, 50)
		if n := life(server.Connect(), fake.New(table), func(pods informer.SharedInformer[*corev1.Pod]) {
			exact(pods)
			known = held(pods.Indexer().List())
		}); n != 0 {
			t.Errorf("a life after changes has read %v whole views", n)
		}
	}

	// Neither NATS nor HTTP is available: the informer shows what it knew, marked as such.
	server.Stop()
	away := fake.New(table)
	away.Fail(func(client.Call) error { return errors.New("no apiserver is there") })
	conn, err := bus.Dial(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	life(conn, away, func(pods informer.SharedInformer[*corev1.Pod]) {
		failed := time.After(patience)
		for tick := time.NewTicker(time.Millisecond); !maps.Equal(held(pods.Indexer().List()), known); {
			select {
			case <-tick.C:
			case <-failed:
				t.Fatalf("offline the informer holds\n%v, it knew\n%v", held(pods.Indexer().List()), known)
			}
		}
		if pods.HasSynced() {
			t.Error("a state that may be old was taken for the present one")
		}
		// NATS and the apiserver come back.
		server.Start()
		churn(t, s, random, 20)
		exact(pods)
	})
}

// at returns the pods that etcd held at a revision.
func at(t *testing.T, s *store.Store, revision int64) []scheme.Object {
	t.Helper()
	page, err := s.List(t.Context(), podKind, store.ListOptions{Revision: revision})
	if err != nil {
		t.Fatal(err)
	}
	return page.Objects
}

func held[T scheme.Object](objects []T) map[string]string {
	found := map[string]string{}
	for _, obj := range objects {
		found[obj.GetNamespace()+"/"+obj.GetName()] = string(obj.GetUID()) + "@" + obj.GetResourceVersion()
	}
	return found
}
