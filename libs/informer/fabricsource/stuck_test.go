package fabricsource

import (
	"context"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// nextAsk advances the time to the next ask.
func nextAsk(t *testing.T, m *machine, now time.Time) (ask, time.Time) {
	t.Helper()
	for range 100 {
		if a, ok := m.tick(now); ok {
			return a, now
		}
		if now = m.next(); now.IsZero() {
			break
		}
	}
	t.Fatal("no further ask is due")
	return ask{}, now
}

// TestARevisionThatNeverComesHidesNothing: a caller waits for a revision of another etcd, or of a
// lost future. Missed changes are asked for all the same, and the asks for the revision end.
func TestARevisionThatNeverComesHidesNothing(t *testing.T) {
	const never = 1 << 62
	m, r := synced(t, true)
	now := epoch
	m.require(now, never)
	if a, ok := tickUntilAsk(m, now); !ok || a.minimum != never {
		t.Fatalf("the ask is %+v, %v", a, ok)
	}
	m.change(now, put("c", "3", 12, 13), false) // earlier changes are lost
	m.notYet(now)
	a, now := nextAsk(t, m, now)
	if a.since != 10 || a.minimum != 13 {
		t.Fatalf("the ask for the missing changes is %+v", a)
	}
	m.answered(now, m.changes(statement{History: h1, Prev: 10, Revision: 14, Changes: put("c", "3", 0, 13).Changes}))
	r.expect(t, "apply +c/3@13 to 14")

	m.progressDue, m.digestAt = time.Time{}, time.Time{}
	asks := 0
	for next := m.next(); !next.IsZero(); next = m.next() {
		now = next
		if a, ok := m.tick(now); ok {
			if a.minimum != never {
				t.Fatalf("%+v was asked", a)
			}
			if asks++; asks > 100 {
				t.Fatal("the asks never end")
			}
			m.notYet(now.Add(3 * time.Second))
		}
	}
	if asks < 2 {
		t.Errorf("it was asked for only %d more times", asks)
	}
	m.require(now, 20)
	if a, ok := tickUntilAsk(m, now); !ok || a.minimum != 20 {
		t.Errorf("the ask for another revision is %+v, %v", a, ok)
	}
}

// TestADeafViewRests checks that a view whose subscription NATS refuses, although the bus answers,
// has work only now and then.
func TestADeafViewRests(t *testing.T) {
	m, _ := synced(t, true)
	m.hears(false)
	now := epoch.Add(silence)
	if _, ok := m.tick(now); ok {
		t.Fatal("asked at once")
	}
	if _, ok := tickUntilAsk(m, now); !ok {
		t.Fatal("nothing was asked")
	}
	m.answered(now, false)
	for range 3 {
		now = now.Add(returnAfter)
		if _, ok := m.tick(now); ok {
			m.answered(now, false)
		}
		if _, ok := tickUntilAsk(m, now); ok {
			m.answered(now, false)
		}
		if m.tick(now); !m.next().After(now) {
			t.Fatalf("at %v after the start something is due at %v", now.Sub(epoch), m.next().Sub(epoch))
		}
	}
	if !m.fallback {
		t.Error("HTTP was left")
	}
	// Another server may behave differently.
	m.hears(true)
	m.disturbed(now)
	if _, ok := tickUntilAsk(m, now); !ok || !m.fallback {
		t.Errorf("asked: %v; HTTP was left at once: %v", ok, !m.fallback)
	}
	m.answered(now, false)
	if m.tick(now.Add(returnAfter)); m.fallback {
		t.Error("HTTP was not left")
	}
}

// TestAQuietTurnThatFailsIsRepeated checks that a failed quiet turn is repeated soon, and not only
// when the next one is due.
func TestAQuietTurnThatFailsIsRepeated(t *testing.T) {
	for name, end := range map[string]func(m *machine, now time.Time){
		"failed":  (*machine).failed,
		"not yet": (*machine).notYet,
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := synced(t, false)
			m.progress(epoch, h1, 22, 25, 0)
			now := m.quietAt
			m.alive(now) // There is a publisher.
			a, ok := m.tick(now)
			if !ok || a.minimum != 22 {
				t.Fatalf("the ask is %+v, %v", a, ok)
			}
			end(m, now)
			if a, ok := tickUntilAsk(m, now); !ok || a.minimum != 22 {
				t.Errorf("the repeated ask is %+v, %v", a, ok)
			}
		})
	}
}

// TestResumedContentOfAFutureIsForgotten: etcd was set back to a backup, and no apiserver knew. The
// machine does not wait for the resumed content's revision.
func TestResumedContentOfAFutureIsForgotten(t *testing.T) {
	sink := &continuitySink{}
	m := newMachine(sink, true, func(d time.Duration) time.Duration { return d / 2 }, nothingCounted{})
	m.resume(fabric.Position{History: h1, Revision: 1000}, []informer.Object{pod("a", "1", 7)})
	m.start(epoch)
	now := epoch
	for {
		a, at := nextAsk(t, m, now)
		now = at
		if !a.delta && a.minimum == 0 {
			if !a.fresh {
				t.Error("the whole view need not be fresh")
			}
			break
		}
		if now.Sub(epoch) > 2*unansweredLimit {
			t.Fatalf("after %v it still asks %+v", now.Sub(epoch), a)
		}
		now = now.Add(3 * time.Second)
		m.notYet(now)
		m.lags(now, h1, 900)
	}
	if now.Sub(epoch) < unansweredLimit {
		t.Errorf("the content was forgotten after only %v", now.Sub(epoch))
	}
	m.answered(now, m.replace(h1, nil, 900, false))
	if sink.replaced != 1 || sink.position != 900 {
		t.Errorf("replaced %d times, at %d", sink.replaced, sink.position)
	}
	// Confirmed content is not forgotten.
	m.require(now, 950)
	for range 30 {
		_, at := nextAsk(t, m, now)
		now = at.Add(3 * time.Second)
		m.notYet(now)
		m.lags(now, h1, 890)
	}
	if !m.synced || m.at.Revision != 900 {
		t.Error("confirmed content was forgotten")
	}
}

// TestResumedContentOutlastsServersThatCannotAnswer checks that servers that cannot answer are no
// reason to read the whole view again.
func TestResumedContentOutlastsServersThatCannotAnswer(t *testing.T) {
	for name, one := range map[string]struct {
		of fabric.History
		at int64
	}{"too busy": {fabric.History{}, 0}, "of another history": {h2, 900}, "without etcd": {h1, 0}, "only slow": {h1, 1000}} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(&continuitySink{}, true, func(d time.Duration) time.Duration { return d / 2 }, nothingCounted{})
			m.resume(fabric.Position{History: h1, Revision: 1000}, nil)
			m.start(epoch)
			for now := epoch; now.Sub(epoch) < 3*unansweredLimit; {
				_, at := nextAsk(t, m, now)
				now = at.Add(3 * time.Second)
				m.notYet(now)
				m.lags(now, one.of, one.at)
			}
			if !m.unconfirmed || m.at.Revision != 1000 {
				t.Error("the content was forgotten")
			}
		})
	}
}

// lists is an HTTP source that only lists.
type lists struct {
	minimum []int64
	listing listwatch.Listing
}

func (l *lists) List(_ context.Context, _ *scheme.Kind, _ informer.View, minimum int64) (listwatch.Listing, error) {
	l.minimum = append(l.minimum, minimum)
	return l.listing, nil
}

func (l *lists) Resume(*scheme.Kind, informer.View, informer.Sink, fabric.Position) informer.Follower {
	return nil
}

// TestAListOfAnotherHistory checks that an answer that refers to a list sets the list's minimum
// revision, since the revisions of the previous history mean nothing in the new one.
func TestAListOfAnotherHistory(t *testing.T) {
	for name, one := range map[string]struct {
		answer    fabric.History
		revision  int64
		want, end int64
	}{
		"another": {h2, 0, 0, 50},
		"same":    {h1, 1001, 1001, 1100},
	} {
		t.Run(name, func(t *testing.T) {
			of := readerOf(informer.View{})
			d := NewStepper(StepperConfig{
				Table: of.table, Kind: of.kind, Sink: &continuitySink{}, Random: func(time.Duration) time.Duration { return 0 },
			})
			over := &lists{listing: listwatch.Listing{Revision: one.end, History: one.answer}}
			d.follower.http = over
			d.follower.machine.replace(h1, nil, 1000, false)
			d.Start(epoch)
			_, number, send, err := d.Tick(epoch)
			if err != nil || !send {
				t.Fatalf("asked: %v, %v", send, err)
			}
			data, err := proto.Marshal(&watchv1.Chunk{
				Answer: 1, Count: 1, Outcome: watchv1.Outcome_OUTCOME_LIST, History: one.answer.Wire(), Revision: one.revision,
			})
			if err != nil {
				t.Fatal(err)
			}
			d.Answer(epoch, number, data)
			d.List(epoch)
			if len(over.minimum) != 1 || over.minimum[0] != one.want {
				t.Errorf("listed at or above %v, want %d", over.minimum, one.want)
			}
			if at, _ := d.Position(); at.History != one.answer || at.Revision != one.end {
				t.Errorf("at %v", at)
			}
		})
	}
}

// TestAListThatIsLateIsTaken checks that a list is still accepted after a disturbance has caused
// another ask. Otherwise a view that takes long to list would be listed again and again.
func TestAListThatIsLateIsTaken(t *testing.T) {
	of, sink := readerOf(informer.View{}), &continuitySink{}
	d := NewStepper(StepperConfig{
		Table: of.table, Kind: of.kind, Sink: sink, Random: func(time.Duration) time.Duration { return 0 },
	})
	d.follower.http = &lists{listing: listwatch.Listing{Revision: 50, History: h1}}
	d.Start(epoch)
	_, number, _, err := d.Tick(epoch)
	if err != nil {
		t.Fatal(err)
	}
	data, err := proto.Marshal(&watchv1.Chunk{
		Answer: 1, Count: 1, Outcome: watchv1.Outcome_OUTCOME_LIST, History: h1.Wire(), Revision: 40,
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Answer(epoch, number, data)
	d.Disturbed(epoch)
	if _, _, send, err := d.Tick(epoch); err != nil || !send {
		t.Fatalf("asked: %v, %v", send, err)
	}
	d.List(epoch)
	if at, synced := d.Position(); !synced || at.Revision != 50 || sink.replaced != 1 {
		t.Errorf("at %v, synced %v, replaced %d times", at, synced, sink.replaced)
	}
	if !d.follower.machine.asking {
		t.Error("the late list ended another ask")
	}
}

// TestMessagesThatComeTooFastCostNoAnswer checks that a pending answer is awaited, followed by one
// more ask. Otherwise no answer would ever be accepted while messages keep coming too fast.
func TestMessagesThatComeTooFastCostNoAnswer(t *testing.T) {
	of, sink := readerOf(informer.View{}), &continuitySink{}
	d := NewStepper(StepperConfig{
		Table: of.table, Kind: of.kind, Sink: sink, Random: func(time.Duration) time.Duration { return 0 },
	})
	d.Start(epoch)
	for revision := int64(10); revision < 15; revision++ {
		ask, number, send, err := d.Tick(epoch)
		if err != nil || !send {
			t.Fatalf("asked: %v, %v", send, err)
		}
		var read watchv1.Ask
		if err := proto.Unmarshal(ask, &read); err != nil || !read.GetFresh() {
			t.Errorf("the ask is %v, %v", &read, err)
		}
		d.follower.lost(bus.ErrSlow)
		if _, _, send, _ := d.Tick(epoch); send {
			t.Error("two asks at once")
		}
		data, err := proto.Marshal(&watchv1.Chunk{
			Answer: 1, Count: 1, Outcome: watchv1.Outcome_OUTCOME_WHOLE, History: h1.Wire(), Revision: revision,
		})
		if err != nil {
			t.Fatal(err)
		}
		d.Answer(epoch, number, data)
		if sink.position != revision {
			t.Errorf("at %d, want %d", sink.position, revision)
		}
	}
	// It asks once more, and then stops.
	_, number, send, _ := d.Tick(epoch)
	data, err := proto.Marshal(&watchv1.Chunk{Answer: 1, Count: 1, Outcome: watchv1.Outcome_OUTCOME_CHANGES, History: h1.Wire(), Prev: 14, Revision: 14})
	if err != nil || !send {
		t.Fatal(send, err)
	}
	d.Answer(epoch, number, data)
	if _, _, send, _ := d.Tick(epoch); send {
		t.Error("it asks although nothing is missing")
	}
	// Any other loss may have lost the answer too.
	d.follower.lost(bus.ErrSlow)
	if _, _, send, err := d.Tick(epoch); err != nil || !send {
		t.Fatal(send, err)
	}
	d.follower.lost(bus.ErrDenied)
	if d.follower.machine.asking {
		t.Error("it waits for an answer that may be lost")
	}
}
