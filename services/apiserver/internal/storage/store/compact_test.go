package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

func contextWithin(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	return context.WithTimeout(t.Context(), 10*time.Second)
}

// TestCompact lets two apiservers compact two clusters for some intervals.
func TestCompact(t *testing.T) {
	t.Parallel()
	main, other := etcdtest.Start(t), etcdtest.Start(t)
	cfg := store.Config{Servers: main.Endpoints(), Overrides: []store.Override{{Resource: schema.GroupResource{Resource: "events"}, Servers: other.Endpoints()}}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	var stores []*store.Store
	for range 2 {
		s := open(t, cfg)
		stores = append(stores, s)
		running.Go(func() {
			if err := s.Compact(ctx, 50*time.Millisecond); err != nil {
				t.Error(err)
			}
		})
	}
	maps := scheme.For[*corev1.ConfigMap](table)
	s := stores[0]
	old := revision(t, create(t, s, configMap("default", "a", "1")))
	if _, err := s.Update(t.Context(), maps, "default", "a", func(scheme.Object) (scheme.Object, error) { return configMap("default", "a", "2"), nil }); err != nil {
		t.Fatal(err)
	}
	oldEvent := other.Put(t, map[string]string{"/x": "1"})
	patience, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := s.List(patience, maps, store.ListOptions{Revision: old})
		oldest, oldestErr := s.Of(scheme.For[*corev1.Event](table)).Oldest(patience, oldEvent)
		if apierrors.IsResourceExpired(err) && oldestErr == nil && oldest > oldEvent {
			break
		}
		if patience.Err() != nil {
			t.Fatalf("revision %d of the main etcd: %v; the oldest of the other: %d, %v", old, err, oldest, oldestErr)
		}
		main.Put(t, map[string]string{"/x": "1"})
		other.Put(t, map[string]string{"/x": "1"})
		<-tick.C
	}
	if obj, err := s.Get(t.Context(), maps, "default", "a"); err != nil || obj.(*corev1.ConfigMap).Data["k"] != "2" {
		t.Errorf("what is there after the compaction: %v, %v", obj, err)
	}
}

func TestNoCompaction(t *testing.T) {
	t.Parallel()
	s := open(t, store.Config{Servers: etcdtest.New(t)})
	if err := s.Compact(t.Context(), 0); err != nil {
		t.Error(err)
	}
}

// TestFollowSurvivesCompaction checks that a follower that is up to date hears everything while
// etcd is compacted behind it, and that one that is not gets an error.
func TestFollowSurvivesCompaction(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	s := open(t, store.Config{Servers: etcd.Endpoints()})
	maps := scheme.For[*corev1.ConfigMap](table)
	start := revision(t, create(t, s, configMap("default", "c0", "1")))
	create(t, s, configMap("default", "c1", "1"))
	behind := start
	var heard []string
	done := errors.New("heard all")
	err := s.Follow(t.Context(), maps, start, nil, func(u store.Update) error {
		for _, record := range u.Records {
			heard = append(heard, record.Name)
		}
		if len(heard) == 10 {
			return done
		}
		etcd.Compact(t, behind)
		behind = u.Revision
		_, err := s.Create(t.Context(), maps, configMap("default", fmt.Sprint("c", len(heard)+1), "1"))
		return err
	})
	if !errors.Is(err, done) || !slices.Equal(heard, []string{"c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9", "c10"}) {
		t.Errorf("heard of %v, %v", heard, err)
	}
	var compacted *store.CompactedError
	if err := s.Follow(t.Context(), maps, 1, nil, func(store.Update) error { return done }); !errors.As(err, &compacted) {
		t.Errorf("following from before the compaction: %v", err)
	}
}
