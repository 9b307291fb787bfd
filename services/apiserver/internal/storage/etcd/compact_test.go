package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/garboard/garboard/services/apiserver/internal/storage/etcd"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// TestCompactionTurns takes the turns of two apiservers one by one.
func TestCompactionTurns(t *testing.T) {
	t.Parallel()
	server := etcdtest.Start(t)
	a, b := connect(t, server.Endpoints()...), connect(t, server.Endpoints()...)
	write := func() int64 {
		return server.Put(t, map[string]string{"/registry/configmaps/x": fmt.Sprint(time.Now())})
	}
	readable := func(revision int64) bool {
		_, err := a.Client.Get(t.Context(), "/x", clientv3.WithRev(revision))
		if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
			t.Fatal(err)
		}
		return err == nil
	}
	var ofA, ofB etcd.Turn
	take := func(c *etcd.Connection, seen *etcd.Turn) int64 {
		t.Helper()
		next, compacted, err := c.CompactOnce(t.Context(), *seen)
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
	if got := server.Values(t, "compact_rev_key"); len(got) != 1 {
		t.Errorf("kube-apiserver's key holds %v", got)
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

// compacting compacts until the test ends, and returns once it has looked at etcd.
func compacting(t *testing.T, server *etcdtest.Server, logger *slog.Logger, interval time.Duration) {
	t.Helper()
	c := connectWith(t, etcd.Config{Servers: server.Endpoints(), Logger: logger})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	running.Go(func() { c.CompactEvery(ctx, interval) })
	for patience := time.After(time.Minute); len(server.Values(t, "compact_rev_key")) == 0; {
		select {
		case <-patience:
			t.Fatal("it does not look at etcd")
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
	server := etcdtest.Start(t)
	write := func() int64 {
		return server.Put(t, map[string]string{"/registry/configmaps/x": fmt.Sprint(time.Now())})
	}
	said := make(firstLine, 1)
	before := write()
	compacting(t, server, slog.New(slog.NewTextHandler(said, nil)), time.Second)
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
