package fabricsource

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
)

// continuitySink is a sink that counts the calls that tell whether its content still holds.
type continuitySink struct {
	informer.SinkDefaults
	history             fabric.History
	confirmed, replaced int
	position            int64
}

func (s *continuitySink) Replace(at fabric.Position, _ []informer.Object) {
	s.replaced, s.position, s.history = s.replaced+1, at.Revision, at.History
}
func (s *continuitySink) Apply(_ []informer.Change, revision int64) { s.position = revision }
func (s *continuitySink) Confirmed()                                { s.confirmed++ }

func TestResumedContentIsConfirmedByAFreshAnswerOnly(t *testing.T) {
	sink := &continuitySink{}
	m := newMachine(sink, true, func(time.Duration) time.Duration { return 0 }, nothingCounted{})
	m.resume(fabric.Position{History: h1, Revision: 10}, []informer.Object{pod("a", "1", 7)})
	m.start(epoch)
	a, send := m.tick(epoch)
	if !send || !a.delta || a.since != 10 || a.history != h1 || !a.fresh {
		t.Fatalf("asked %+v, %v", a, send)
	}
	// A message advances the content, but does not show how new it is.
	m.change(epoch, statement{History: h1, Prev: 7, Revision: 12, Changes: []informer.Change{{Revision: 12, Name: "b", UID: "2", Object: pod("b", "2", 12)}}}, false)
	if sink.position != 12 || sink.confirmed != 0 {
		t.Errorf("at %d, confirmed %d times", sink.position, sink.confirmed)
	}
	// Neither does an answer about another life of etcd.
	if m.confirm(h2, 11); sink.confirmed != 0 {
		t.Error("an answer of another history confirmed it")
	}
	if m.confirm(h1, 13); sink.confirmed != 0 {
		t.Error("an answer that was not applied confirmed it")
	}
	m.confirm(h1, 12)
	m.answered(epoch, false)
	if sink.confirmed != 1 || sink.replaced != 0 {
		t.Errorf("confirmed %d times, replaced %d times", sink.confirmed, sink.replaced)
	}
}

func TestResumedContentOfAnotherHistoryIsReplaced(t *testing.T) {
	sink := &continuitySink{}
	m := newMachine(sink, true, func(time.Duration) time.Duration { return 0 }, nothingCounted{})
	m.resume(fabric.Position{History: h1, Revision: 100}, []informer.Object{pod("a", "1", 7)})
	m.start(epoch)
	m.tick(epoch)
	if !m.replace(h2, nil, 4, false) || m.unconfirmed || sink.history != h2 || sink.position != 4 {
		t.Errorf("at %d of %v", sink.position, sink.history)
	}
	// HTTP names no history, so resumed and unconfirmed content is no place to continue from.
	m.resume(fabric.Position{History: h1, Revision: 100}, nil)
	m.forget()
	if !m.replace(fabric.History{}, nil, 3, false) || sink.position != 3 || !sink.history.IsZero() {
		t.Errorf("at %d of %v", sink.position, sink.history)
	}
}

func TestRefresh(t *testing.T) {
	m, _ := synced(t, true)
	first := m.refresh(epoch)
	a, send := m.tick(epoch)
	if !send || !a.fresh || a.refresh != first {
		t.Fatalf("asked %+v, %v", a, send)
	}
	// A call during an ask waits for the next ask.
	second := m.refresh(epoch)
	m.answered(epoch, m.confirm(m.at.History, m.at.Revision))
	if m.refreshed != first {
		t.Errorf("fresh for %d of %d", m.refreshed, second)
	}
	if a, send = m.tick(epoch.Add(time.Second)); !send || !a.fresh || a.refresh != second {
		t.Errorf("asked %+v, %v", a, send)
	}
	// After a failed ask the calls keep waiting.
	m.failed(epoch.Add(time.Second))
	if a, send = m.tick(epoch.Add(time.Minute)); !send || !a.fresh || a.refresh != second || m.refreshed != first {
		t.Errorf("asked %+v, %v", a, send)
	}
}

// TestForgottenContentIsNotFollowedByAnOlderHistory checks that resumed content is forgotten if
// HTTP takes over before it is confirmed, and that older histories are over all the same.
func TestForgottenContentIsNotFollowedByAnOlderHistory(t *testing.T) {
	for name, one := range map[string]struct {
		of   fabric.History
		want bool
	}{"older": {h1, false}, "the same": {h2, true}, "not known": {fabric.History{}, true}} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(&continuitySink{}, true, func(time.Duration) time.Duration { return 0 }, nothingCounted{})
			m.resume(fabric.Position{History: h2, Revision: 20}, nil)
			m.forget()
			if m.newest() != h2 {
				t.Errorf("the newest history is %v", m.newest())
			}
			if got := m.replace(one.of, nil, 30, false); got != one.want {
				t.Errorf("a whole view of %v was accepted: %v", one.of, got)
			}
		})
	}
}

// TestWhoWaitsNoMoreIsForgotten checks that a call of Refresh that has ended is not kept until
// there is fresh content.
func TestWhoWaitsNoMoreIsForgotten(t *testing.T) {
	of := readerOf(informer.View{})
	f := NewStepper(StepperConfig{
		Table: of.table, Kind: of.kind, Sink: &continuitySink{}, Random: func(time.Duration) time.Duration { return 0 },
	}).follower
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 3 {
		if err := f.Refresh(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Refresh returned %v", err)
		}
	}
	if len(f.waiters) > 0 {
		t.Errorf("%d waiters are left", len(f.waiters))
	}
}
