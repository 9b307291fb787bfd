package feed_test

import (
	"testing"
	"time"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
)

// awaitHistory waits until the history of the feed of pods is no longer old.
func (p *plane) awaitHistory(old fabric.History) {
	p.t.Helper()
	timeout := time.After(deadline)
	for {
		if now := p.pods.History(); now != old && now != (fabric.History{}) {
			return
		}
		select {
		case <-timeout:
			p.t.Fatalf("the feed is still in history %v", old)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestWitness checks that the feed compares etcd with what another process saw of it.
func TestWitness(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	revision := p.create("x", "a", "")
	if err := p.pods.WaitFor(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	history := p.pods.History()
	for name, record := range map[string]store.Record{
		"the object":       {Namespace: "x", Name: "a", Revision: revision},
		"only a revision":  {Revision: revision},
		"one that is gone": {Namespace: "x", Name: "b", Revision: revision, Deleted: true},
	} {
		if err := p.pods.Witness(t.Context(), history, record); err != nil || p.pods.History() != history {
			t.Errorf("%s: %v, history %v", name, err, p.pods.History())
		}
	}
	for name, record := range map[string]store.Record{
		"another value":       {Namespace: "x", Name: "a", Revision: revision, Raw: []byte("other")},
		"another revision":    {Namespace: "x", Name: "a", Revision: revision - 1},
		"a revision to come":  {Revision: revision + 1000},
		"an object not there": {Namespace: "x", Name: "b", Revision: revision},
	} {
		history := p.pods.History()
		if err := p.pods.Witness(t.Context(), history, record); err == nil {
			t.Errorf("%s contradicts etcd, but the feed believes it", name)
			continue
		}
		p.awaitHistory(history)
	}
}

// TestHistoryRenewedByAnother: a feed that saw no contradiction follows into the new history.
func TestHistoryRenewedByAnother(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	old := p.pods.History()
	if _, err := p.store.RenewHistory(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	p.awaitHistory(old)
}

// TestHistoriesOnlyRise: an observer of a newer history than etcd's proves that etcd was set back
// to an earlier backup, whatever etcd holds.
func TestHistoriesOnlyRise(t *testing.T) {
	t.Parallel()
	p := start(t, etcdtest.Start(t), feed.Config{})
	revision := p.create("x", "a", "")
	if err := p.pods.WaitFor(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	old := p.pods.History()
	known := fabric.History{Created: old.Created + int64(time.Hour), Nonce: 1}
	if err := p.pods.Witness(t.Context(), known, store.Record{Namespace: "x", Name: "a", Revision: revision}); err == nil {
		t.Error("the feed continues a history that is over")
	}
	p.awaitHistory(old)
	if now := p.pods.History(); !known.Before(now) {
		t.Errorf("after %v comes %v", known, now)
	}
}
