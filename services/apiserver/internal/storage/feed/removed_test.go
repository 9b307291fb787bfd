package feed_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func gadgets() *scheme.Kind {
	return &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}, Custom: true,
		Resource: "gadgets", Singular: "gadget", Namespaced: true, StoragePrefix: "example.org/gadgets",
	}
}

// TestKindsComeAndGo checks that a kind that is removed ends its watches and waits for good, and
// leaves no metrics, and that the same kind can come again.
func TestKindsComeAndGo(t *testing.T) {
	t.Parallel()
	table, registry, etcd := scheme.New(), prometheus.NewRegistry(), etcdtest.Start(t)
	s, err := store.Open(t.Context(), store.Config{Servers: etcd.Endpoints(), Table: table})
	if err != nil {
		t.Fatal(err)
	}
	feeds := feed.New(feed.Config{Store: s, Table: table, Logger: slog.New(slog.DiscardHandler), Registerer: registry})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- feeds.Run(ctx) }()
	defer func() {
		cancel()
		if err := errors.Join(<-ended, s.Close()); err != nil {
			t.Error(err)
		}
	}()
	patient, done := context.WithTimeout(t.Context(), deadline)
	defer done()

	for range 2 {
		kind := gadgets()
		if err := table.Install(kind); err != nil {
			t.Fatal(err)
		}
		f := feeds.Of(kind)
		if f.Kind() != kind || feeds.Of(kind) != f {
			t.Fatal("the feed of a kind is not that of the kind")
		}
		if err := f.WaitFor(patient, 0); err != nil {
			t.Fatal(err)
		}
		w, err := f.Watch(patient, fabric.View{}, f.Through())
		if err != nil {
			t.Fatal(err)
		}
		if series := gathered(t, registry); !strings.Contains(series, "gadgets") {
			t.Errorf("the metrics of a served kind are %s", series)
		}
		waits := make(chan error, 1)
		go func() { waits <- f.WaitFor(patient, f.Through()+1_000_000) }()
		table.Remove(kind.GroupVersionKind)
		for range w.Events() {
			// Until the watch ends.
		}
		if err := w.Err(); !errors.Is(err, scheme.ErrRemoved) {
			t.Errorf("the watch ended with %v", err)
		}
		if err := <-waits; !errors.Is(err, scheme.ErrRemoved) {
			t.Errorf("the wait ended with %v", err)
		}
		for name, one := range map[string]*feed.Feed{"the feed that ended": f, "a feed asked for later": feeds.Of(kind)} {
			if _, err := one.Watch(patient, fabric.View{}, 0); !errors.Is(err, scheme.ErrRemoved) {
				t.Errorf("%s: watching: %v", name, err)
			}
			if _, err := one.Get(patient, "x", "a", 0); !errors.Is(err, scheme.ErrRemoved) {
				t.Errorf("%s: reading: %v", name, err)
			}
			one.CountConsistentRead(false, true) // by a request that began earlier
			if _, found := one.Cached("x", "a"); found || one.CachedIn(fabric.View{}) != nil || !one.History().IsZero() || one.Through() != 0 {
				t.Errorf("%s still knows something", name)
			}
		}
		// The feeds for other kinds are not affected, nor is their readiness.
		if err := feeds.Ready(patient); err != nil {
			t.Error(err)
		}
	}
	if series := gathered(t, registry); strings.Contains(series, "gadgets") {
		t.Errorf("the metrics of a removed kind remain: %s", series)
	}
}

// gathered returns the series of the metrics by resource that are about gadgets.
func gathered(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if text := metric.String(); strings.Contains(text, "gadgets") {
				all = append(all, family.GetName()+" "+text)
			}
		}
	}
	return strings.Join(all, "\n")
}
