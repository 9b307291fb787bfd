package feed

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// renewable is an etcd at revision 50 whose current history can be renewed any number of times.
type renewable struct {
	still
	history fabric.History
	renewed int
}

func (r *renewable) History(context.Context) (fabric.History, error) { return r.history, nil }

func (r *renewable) RenewHistory(_ context.Context, old fabric.History) (fabric.History, error) {
	if !old.Before(r.history) {
		r.history.Created = max(r.history.Created, old.Created) + 1
		r.renewed++
	}
	return r.history, nil
}

func driven(t *testing.T, storage Storage) *Stepper {
	t.Helper()
	d := NewStepper(Config{Logger: slog.New(slog.DiscardHandler), History: 20, WindowEvents: 10, WindowBytes: 1 << 10}, storage, scheme.For[*corev1.Pod](scheme.New()))
	if err := d.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAFeedThatCannotBeReadEndsNoHistory checks that a feed without a history of its own does not
// take the witness' history for a newer one.
func TestAFeedThatCannotBeReadEndsNoHistory(t *testing.T) {
	etcd := &renewable{history: fabric.History{Created: 7}}
	d := driven(t, etcd)
	witness := store.Record{Revision: 40}
	for range 2 {
		// The feed was read at an earlier revision and has not reached the present.
		if err := d.Feed().Witness(t.Context(), etcd.history, witness); !errors.Is(err, ErrNotReady) || etcd.renewed != 0 || d.Over() {
			t.Fatalf("%v; %d histories have begun, the epoch is over: %t", err, etcd.renewed, d.Over())
		}
		d.Apply(store.Update{Revision: 50})
		if err := d.Feed().Witness(t.Context(), etcd.history, witness); err != nil || etcd.renewed != 0 {
			t.Fatalf("%v; %d histories have begun", err, etcd.renewed)
		}
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	d.Forget()
	if err := d.Feed().Witness(t.Context(), etcd.history, witness); !errors.Is(err, ErrNotReady) {
		t.Error(err)
	}
}

// TestOneRestoreEndsOneEpoch: all feeds of a process find out one after the other that etcd was set
// back. The later ones must not end the epoch that has begun since.
func TestOneRestoreEndsOneEpoch(t *testing.T) {
	etcd := &renewable{history: fabric.History{Created: 7}}
	first, second := driven(t, etcd), driven(t, etcd)
	shared := first.feed.epoch
	second.feed.epoch = shared
	for _, d := range []*Stepper{first, second} {
		if err := d.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		d.Apply(store.Update{Revision: 50})
	}
	old, future := etcd.history, store.Record{Revision: 60}
	if err := first.Feed().Witness(t.Context(), old, future); err == nil || etcd.renewed != 1 || !first.Over() || !second.Over() {
		t.Fatalf("%v; %d histories have begun", err, etcd.renewed)
	}
	next := shared.end()
	ended := func() bool { return shared.end() != next }
	// The second feed has not started over yet.
	if err := second.Feed().Witness(t.Context(), old, future); err == nil || etcd.renewed != 1 || ended() {
		t.Errorf("%v; %d histories have begun, the new epoch is over: %t", err, etcd.renewed, ended())
	}
	if err := second.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	second.Apply(store.Update{Revision: 50})
	// It has started over, and only now learns of an observation in the old history.
	if err := second.Feed().Witness(t.Context(), old, future); err == nil || etcd.renewed != 1 || ended() {
		t.Errorf("%v; %d histories have begun, the new epoch is over: %t", err, etcd.renewed, ended())
	}
	if err := second.Feed().Witness(t.Context(), etcd.history, future); err == nil || etcd.renewed != 2 || !ended() {
		t.Errorf("%v; %d histories have begun, the new epoch is over: %t", err, etcd.renewed, ended())
	}
}
