package feed

import (
	"context"
	"log/slog"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// TestWitnesses checks that a deletion alone is no witness: the object may be absent in an etcd
// that was set back too. An unreadable value is no witness either.
func TestWitnesses(t *testing.T) {
	put := func(r int64) *Event { return &Event{Revision: r} }
	gone := func(r int64) *Event { return &Event{Revision: r, Deleted: true} }
	odd := func(r int64) *Event { return &Event{Revision: r, Deleted: true, unreadable: true} }
	for name, c := range map[string]struct {
		window []*Event
		want   []int64
	}{
		"none":             {},
		"a change":         {[]*Event{put(1), gone(2), put(3)}, []int64{3}},
		"a deletion":       {[]*Event{put(1), put(2), gone(3), gone(4)}, []int64{4, 2}},
		"only deletions":   {[]*Event{gone(3), gone(4)}, []int64{4}},
		"unreadable value": {[]*Event{put(1), odd(2)}, []int64{1}},
		"only unreadable":  {[]*Event{odd(2)}, nil},
		"and a deletion":   {[]*Event{put(1), odd(2), gone(3), odd(4)}, []int64{3, 1}},
	} {
		var got []int64
		for _, event := range witnesses(c.window) {
			got = append(got, event.Revision)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// foreign is an etcd that holds nothing of what anybody saw, so that a new history begins.
type foreign struct{ still }

func (foreign) Holds(context.Context, *scheme.Kind, store.Record) (bool, error) { return false, nil }
func (foreign) RenewHistory(context.Context, fabric.History) (fabric.History, error) {
	return fabric.History{Created: 2}, nil
}

// TestNobodyReadsAHistoryThatIsOver: once one feed finds that a new history begins, no other feed
// says a word about the old one, even before its owner reads etcd anew.
func TestNobodyReadsAHistoryThatIsOver(t *testing.T) {
	table := scheme.New()
	cfg := Config{Logger: slog.New(slog.DiscardHandler), History: 20, WindowEvents: 10, WindowBytes: 1 << 10}
	finder := NewStepper(cfg, foreign{}, scheme.For[*corev1.Pod](table))
	other := NewStepper(cfg, foreign{}, scheme.For[*corev1.ConfigMap](table))
	other.feed.epoch = finder.feed.epoch
	for _, one := range []*Stepper{finder, other} {
		if err := one.Open(t.Context()); err != nil || !one.Apply(store.Update{Revision: 50}) {
			t.Fatalf("the feed does not follow etcd: %v", err)
		}
	}
	watcher, err := other.feed.Watch(t.Context(), fabric.View{}, 50)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	if other.feed.History() != (fabric.History{Created: 1}) {
		t.Fatalf("the feed is in history %v", other.feed.History())
	}
	if err := finder.feed.Witness(t.Context(), fabric.History{Created: 1}, store.Record{Name: "ghost", Revision: 40}); err == nil {
		t.Fatal("the feed believes what etcd contradicts")
	}
	if got := other.feed.History(); !got.IsZero() {
		t.Errorf("the other feed still reads history %v", got)
	}
	if _, err := other.feed.Watch(t.Context(), fabric.View{}, 50); err == nil {
		t.Error("the other feed can be watched")
	}
	for len(watcher.Events()) > 0 {
		<-watcher.Events() // What was true when it was queued.
	}
	record := store.Record{Namespace: "x", Name: "a", Revision: 60, Raw: []byte("{}")}
	if other.Apply(store.Update{Revision: 60, Records: []store.Record{record}}) {
		t.Error("the other feed follows etcd in the old history")
	}
	select {
	case batch := <-watcher.Events():
		t.Errorf("a watch of the old history delivers %+v", batch)
	default:
	}
}
