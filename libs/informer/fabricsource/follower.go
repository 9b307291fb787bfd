package fabricsource

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/fabric/wire"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/listwatch"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// How many messages may wait for a follower before some are dropped; a drop costs an ask. The bound
// for narrow views is low because a program may follow thousands of them.
const (
	pendingWhole  = 4096
	pendingNarrow = 256
)

// tries is how many answers in a row may hold an unreadable object before the view is read over
// HTTP.
const tries = 3

// web is list and watch over HTTP: *listwatch.Source.
type web interface {
	List(ctx context.Context, kind *scheme.Kind, view informer.View, minimum int64) (listwatch.Listing, error)
	Resume(kind *scheme.Kind, view informer.View, sink informer.Sink, at fabric.Position) informer.Follower
}

// follower does the machine's work: subscriptions, asks, lists, and HTTP in place of all of them.
type follower struct {
	conn   *bus.Conn
	http   web
	kind   *scheme.Kind
	view   informer.View
	count  *resourceMetrics
	reader reader
	logger *slog.Logger
	wake   chan struct{}
	inbox  string
	clock  func() time.Time
	// spawn and beside run a function in the background; Run waits for both. beside runs the
	// follower over HTTP.
	spawn  func(func())
	beside func(func())
	work   sync.WaitGroup

	mu      sync.Mutex
	machine *machine
	// messages is the subscription to the view; nil until it exists.
	messages *bus.Subscription
	number   uint64    // of the ask in flight
	sleeps   time.Time // until when the loop sleeps; zero before it runs
	// unreadable counts the answers in a row that held an unreadable object.
	unreadable int
	assembly   fabric.Assembly
	stopHTTP   context.CancelFunc // set while HTTP has taken over
	httpOf     fabric.History     // the history of what HTTP reports
	require    func(int64)        // set while HTTP has taken over
	whyHTTP    atomic.Value       // a string, empty unless HTTP has taken over; readable without mu
	waiters    []waiter
}

// Run follows the view until ctx ends.
func (f *follower) Run(ctx context.Context) error {
	if err := listwatch.Check(f.kind, f.view); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.work.Wait()
	defer cancel()

	forget := f.conn.OnReconnect(f.disturbed)
	defer forget()
	answers, err := f.conn.Subscribe(ctx, f.inbox+".*", func(m bus.Message) { f.answer(ctx, m) }, bus.OnLoss(func(err error) {
		f.countLoss(err)
		f.disturbed()
	}))
	if err != nil {
		return fmt.Errorf("following %s: %w", f.kind.GroupResource(), err)
	}
	defer func() { <-answers.Done() }()
	defer answers.Unsubscribe()
	waiting := pendingNarrow
	if f.view == (informer.View{}) {
		waiting = pendingWhole
	}
	messages, err := f.conn.SubscribeAll(ctx, wire.Subjects(f.kind.GroupResource(), f.view), f.message, bus.OnLoss(f.lost), bus.Pending(waiting, 0))
	if err != nil {
		return fmt.Errorf("following %s: %w", f.kind.GroupResource(), err)
	}
	defer func() { <-messages.Done() }()
	defer messages.Unsubscribe()
	f.do(func(time.Time) {
		f.messages = messages
		f.machine.hears(!messages.Denied())
	})
	// Otherwise the coming reconnect subscribes again, and disturbs the machine.
	connected := f.conn.Connected()
	if connected {
		if err := f.conn.Flush(ctx); err != nil && ctx.Err() == nil {
			f.logger.Warn("could not reach NATS to subscribe; retrying until it is back", "err", err)
		}
	}
	f.do(func(now time.Time) {
		f.machine.start(now)
		if !connected {
			f.machine.away()
		}
	})
	f.loop(ctx)
	return nil
}

// disturbed handles a possible loss of messages and answers.
func (f *follower) disturbed() {
	f.do(func(now time.Time) {
		f.machine.hears(f.messages == nil || !f.messages.Denied())
		f.machine.disturbed(now)
	})
}

// lost handles a loss of messages. If they only came too fast, no answer was lost.
func (f *follower) lost(err error) {
	f.countLoss(err)
	if errors.Is(err, bus.ErrSlow) {
		f.do(f.machine.dropped)
		return
	}
	f.disturbed()
}

func (f *follower) countLoss(err error) {
	if errors.Is(err, bus.ErrSlow) {
		f.count.discarded("slow handler")
	}
}

// do changes the machine. Few of the changes wake the loop: only if it may have to act before it wakes by itself.
func (f *follower) do(change func(now time.Time)) {
	f.mu.Lock()
	overHTTP := f.machine.fallback
	change(f.clock())
	idle := !overHTTP && !f.machine.fallback && !f.machine.next().Before(f.sleeps)
	f.mu.Unlock()
	if !idle {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
}

// Require asks for content at or above a revision.
func (f *follower) Require(revision int64) {
	f.do(func(now time.Time) {
		f.machine.require(now, revision)
		if f.require != nil {
			f.require(revision)
		}
	})
}

// Via names the current carrier of the changes.
func (f *follower) Via() string {
	if f.Why() != "" {
		return watcher.ViaHTTP
	}
	return watcher.ViaNATS
}

// Why says why HTTP carries the changes; empty if NATS does.
func (f *follower) Why() string {
	why, _ := f.whyHTTP.Load().(string)
	return why
}

// report makes known why HTTP carries the changes.
func (f *follower) report(why string) {
	if before := f.Why(); before != why {
		f.whyHTTP.Store(why)
		f.count.overHTTP(before, -1)
		f.count.overHTTP(why, 1)
	}
}

// loop does what is due until ctx ends.
func (f *follower) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	defer f.report("")
	for {
		f.mu.Lock()
		a, number, send := f.due(f.clock())
		f.chooseWay(ctx)
		next, why := cmp.Or(f.machine.next(), f.clock().Add(time.Hour)), f.machine.why
		f.sleeps = next
		f.mu.Unlock()
		f.report(why)
		if send {
			f.send(ctx, a, number)
			continue
		}
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-timer.C:
		}
	}
}

// due does what is due, and returns the ask to send now, if any, and its number. The caller holds mu.
func (f *follower) due(now time.Time) (a ask, number uint64, send bool) {
	if a, send = f.machine.tick(now); send {
		f.number++
		f.assembly = fabric.Assembly{}
	}
	return a, f.number, send
}

func (f *follower) send(ctx context.Context, a ask, number uint64) {
	data, err := f.reader.ask(a)
	if err == nil {
		reply := f.inbox + "." + strconv.FormatUint(number, 36)
		err = f.conn.PublishRequest(ctx, f.conn.Client().Ask(f.kind.Group, f.kind.Resource), reply, data)
	}
	if err == nil || ctx.Err() != nil {
		return
	}
	f.logger.Debug("could not send an ask", "err", err)
	f.do(func(now time.Time) {
		if f.machine.asking && f.number == number {
			f.machine.failed(now)
		}
	})
}

// message handles a watch message.
func (f *follower) message(m bus.Message) {
	e, err := f.reader.message(m.Subject, m.Data)
	if err != nil {
		f.count.discarded("faulty message")
		f.logger.Warn("discarded a watch message", "err", err)
		return
	}
	if e.ignored {
		return
	}
	if e.fault != nil {
		f.count.discarded("unreadable object")
		f.logger.Warn("cannot read the object in a watch message; asking for it", "err", e.fault)
	}
	f.do(func(now time.Time) {
		switch {
		case e.removed:
			f.logger.Warn("the resource is no longer served; asking whether that is so")
			f.machine.disturbed(now)
		case e.progress:
			f.machine.progress(now, e.History, e.Prev, e.Revision, e.start)
		default:
			f.machine.change(now, e.statement, e.omitted)
		}
	})
}

// answer handles a chunk of an answer.
func (f *follower) answer(ctx context.Context, m bus.Message) {
	number, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 36, 64)
	if err != nil {
		return
	}
	f.part(ctx, number, m)
}

// part handles a chunk of the answer to the ask with a number.
func (f *follower) part(ctx context.Context, number uint64, m bus.Message) {
	f.do(func(now time.Time) {
		if number != f.number || !f.machine.asking {
			return // Too late: another ask was answered or sent, or the ask timed out.
		}
		if m.NoResponders() {
			f.machine.failed(now)
			return
		}
		chunks, err := f.assembly.Add(m.Data)
		if err == nil {
			f.machine.heardPart(now)
			if chunks == nil {
				return
			}
			var a answer
			if a, err = f.reader.answer(chunks); err == nil {
				f.receive(ctx, now, a)
				return
			}
		}
		f.count.discarded("faulty answer")
		f.logger.Warn("discarded an answer", "err", err)
		f.machine.failed(now)
	})
}

// receive handles a complete answer. The caller holds mu.
func (f *follower) receive(ctx context.Context, now time.Time, a answer) {
	m := f.machine
	switch a.outcome {
	case watchv1.Outcome_OUTCOME_CHANGES, watchv1.Outcome_OUTCOME_WHOLE, watchv1.Outcome_OUTCOME_LIST:
		known := m.newest()
		if m.noteHistory(now, a.History, m.current.fresh); known != m.newest() {
			f.logger.Warn("all servers have long been in an older history; dropping the known content",
				"history", a.History.String(), "known", known.String())
		}
		if m.deaf {
			f.messages.Renew() // An apiserver answers, so the user has the right that NATS misses.
		}
	}
	switch {
	case a.fault != nil:
		f.count.discarded("unreadable object")
		if f.unreadable++; f.unreadable < tries {
			f.logger.Warn("cannot read an object in an answer; asking again", "revision", a.Revision, "err", a.fault)
			m.failed(now) // Another responder may be able to read it.
			return
		}
		// HTTP may have the object in another encoding. If not, the rest of the answer is still
		// true.
		f.logger.Error("cannot read an object in an answer; listing over HTTP", "revision", a.Revision, "err", a.fault)
		f.startList(ctx, now, a, func(now time.Time) {
			f.logger.Error("cannot read an object; keeping its last readable state", "revision", a.Revision, "err", a.fault)
			f.content(now, a)
			m.lacking(now)
		})
	case a.outcome == watchv1.Outcome_OUTCOME_CHANGES, a.outcome == watchv1.Outcome_OUTCOME_WHOLE:
		f.content(now, a)
	case a.outcome == watchv1.Outcome_OUTCOME_LIST:
		f.startList(ctx, now, a, m.failed)
	case a.outcome == watchv1.Outcome_OUTCOME_NOT_YET:
		m.notYet(now)
		m.lags(now, a.History, a.Revision)
	case a.outcome == watchv1.Outcome_OUTCOME_FORBIDDEN, a.outcome == watchv1.Outcome_OUTCOME_NOT_FOUND:
		f.logger.Warn("the bus refuses the view; following it over HTTP", "outcome", a.outcome, "reason", a.reason)
		m.unserved = a.outcome == watchv1.Outcome_OUTCOME_NOT_FOUND
		m.refused(now)
	default:
		f.count.discarded("faulty answer")
		m.failed(now)
	}
}

// content applies the content of an answer. The caller holds mu.
func (f *follower) content(now time.Time, a answer) {
	f.unreadable = 0
	m := f.machine
	if a.outcome == watchv1.Outcome_OUTCOME_CHANGES {
		moved := m.changes(a.statement)
		f.answered(now, a.History, a.Revision, moved)
		return
	}
	compared := m.current.compare
	before := m.index.digest
	same := m.synced && a.History == m.at.History && a.Revision == m.at.Revision
	moved := m.replace(a.History, a.objects(), a.Revision, compared)
	f.answered(now, a.History, a.Revision, moved)
	if compared && same && before != m.index.digest {
		f.count.discarded("content that differed from etcd")
		f.logger.Error("the content differed from etcd at the same revision; replaced it", "revision", a.Revision)
	}
}

// startList lists the view over HTTP in place of an answer. If that fails, it calls failed with mu held, as its caller does.
func (f *follower) startList(ctx context.Context, now time.Time, a answer, failed func(now time.Time)) {
	f.machine.listing(now)
	// The ask's own minimum may be a revision of another history.
	number, minimum := f.number, a.Revision
	f.spawn(func() {
		ctx, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		listing, err := f.http.List(ctx, f.kind, f.view, minimum)
		of := a.History
		if !listing.History.IsZero() {
			of = listing.History
		}
		if err == nil && of.Compare(a.History) < 0 {
			err = fmt.Errorf("the list is of history %v, which is over: the answer is of %v", of, a.History)
		}
		if err != nil && ctx.Err() == nil {
			f.logger.Warn("could not list a view", "err", err)
		}
		f.do(func(now time.Time) {
			if number != f.number || !f.machine.asking {
				if err == nil { // late, but true
					f.machine.replace(of, listing.Objects, listing.Revision, false)
				}
				return
			}
			if err != nil {
				failed(now)
				return
			}
			f.unreadable = 0
			moved := f.machine.replace(of, listing.Objects, listing.Revision, f.machine.current.compare)
			f.answered(now, of, listing.Revision, moved)
		})
	})
}
