package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// TestCompactionTurns takes the turns of two apiservers one by one.
func TestCompactionTurns(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	a, b := open(t, store.Config{Servers: etcd.Endpoints()}), open(t, store.Config{Servers: etcd.Endpoints()})
	write := func() int64 { return etcd.Put(t, map[string]string{"/registry/configmaps/x": fmt.Sprint(time.Now())}) }
	readable := func(revision int64) bool {
		oldest, err := a.Oldest(t.Context(), revision)
		if err != nil {
			t.Fatal(err)
		}
		return oldest == revision
	}
	var ofA, ofB store.Turn
	take := func(s *store.Store, seen *store.Turn) int64 {
		t.Helper()
		next, compacted, err := s.CompactOnce(t.Context(), *seen)
		if err != nil {
			t.Fatal(err)
		}
		*seen = next
		return compacted
	}
	first := write()
	if n := take(a, &ofA); n != 0 || !readable(first) {
		t.Errorf("a's first turn compacted to %d", n)
	}
	write()
	if n := take(b, &ofB); n != 0 || !readable(first) {
		t.Errorf("b, which has just begun, compacted to %d", n)
	}
	between := write()
	if n := take(a, &ofA); n <= first || n >= between || readable(first) || !readable(between) {
		t.Errorf("a's second turn compacted to %d: not what was at its first, which is after %d and before %d", n, first, between)
	}
	if n := take(b, &ofB); n != 0 || !readable(between) {
		t.Errorf("b compacted to %d in a's interval", n)
	}
	later := write()
	// a is gone: b continues from what it saw last.
	if n := take(b, &ofB); n <= between || n >= later || !readable(later) {
		t.Errorf("b's turn compacted to %d, not to after %d and before %d", n, between, later)
	}
	if n := take(a, &ofA); n != 0 {
		t.Errorf("a, which missed a turn, compacted to %d", n)
	}
	if got := etcd.Values(t, "compact_rev_key"); len(got) != 1 {
		t.Errorf("kube-apiserver's key holds %v", got)
	}
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

// firstLine is a log that keeps only the first line.
type firstLine chan string

func (l firstLine) Write(line []byte) (int, error) {
	select {
	case l <- string(line):
	default:
	}
	return len(line), nil
}

// compacting makes a store compact until the test ends, and returns once the store has looked at
// etcd.
func compacting(t *testing.T, etcd *etcdtest.Server, logger *slog.Logger, interval time.Duration) {
	t.Helper()
	s := open(t, store.Config{Servers: etcd.Endpoints(), Logger: logger})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() {
		if err := s.Compact(ctx, interval); err != nil {
			t.Error(err)
		}
	})
	for patience := time.After(time.Minute); len(etcd.Values(t, "compact_rev_key")) == 0; {
		select {
		case <-patience:
			t.Fatal("the store does not look at etcd")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestCompactionLooksAtOnce checks that the first look is at the start.
func TestCompactionLooksAtOnce(t *testing.T) {
	t.Parallel()
	compacting(t, etcdtest.Start(t), slog.New(slog.DiscardHandler), time.Hour)
}

// TestCompactionAfterOneInterval checks that an apiserver first compacts to the revision that it
// saw at its start.
func TestCompactionAfterOneInterval(t *testing.T) {
	t.Parallel()
	etcd := etcdtest.Start(t)
	write := func() int64 { return etcd.Put(t, map[string]string{"/registry/configmaps/x": fmt.Sprint(time.Now())}) }
	said := make(firstLine, 1)
	before := write()
	compacting(t, etcd, slog.New(slog.NewTextHandler(said, nil)), time.Second)
	write()
	select {
	case <-time.After(time.Minute):
		t.Fatal("it never compacted")
	case line := <-said:
		// The look is itself a write, the one after before.
		if !strings.Contains(line, `msg="compacted etcd"`) || !strings.Contains(line, fmt.Sprintf(" revision=%d\n", before+1)) {
			t.Errorf("after the first interval the log says %q, want a compaction to %d, the revision at the start", line, before+1)
		}
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
	var seen store.Turn
	var heard []string
	done := errors.New("heard all")
	err := s.Follow(t.Context(), maps, start, nil, func(u store.Update) error {
		for _, record := range u.Records {
			heard = append(heard, record.Name)
		}
		if len(heard) == 10 {
			return done
		}
		next, _, err := s.CompactOnce(t.Context(), seen)
		if err != nil {
			return err
		}
		seen = next
		_, err = s.Create(t.Context(), maps, configMap("default", fmt.Sprint("c", len(heard)+1), "1"))
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
