// Package changefeed reads what happens in a view of a resource change by change, for programs
// that keep no store: from now on or from the past, as far as the log goes back, each change
// once and in the order of revisions. Whoever wants to know what is, not what happened, takes
// libs/informer.
//
// It applies the rules of the watch fabric to a list of changes: where messages were lost it
// asks, and gets the newest state of what changed meanwhile; what nobody can tell any more is
// a record of a gap, never silence.
package changefeed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/fabric"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// View is a resource, or a part of it: see bus.ViewSubject.
type View struct{ Group, Resource, Scope, Namespace, Name string }

// Origin says where a record is from.
type Origin string

// Origins.
const (
	// Live is a message that came when the change happened.
	Live Origin = "live"
	// Logged is a message of the log.
	Logged Origin = "log"
	// Answered is from an apiserver's answer: the newest state of an object that changed once
	// or more since the record before.
	Answered Origin = "answer"
	// Present is an object that was there when the reading began.
	Present Origin = "present"
	// Missing is a gap.
	Missing Origin = "gap"
)

// Record is one change, or that changes are missing.
type Record struct {
	Origin Origin
	// Time is when the log took the message; zero if it is not of the log.
	Time time.Time
	// Message is the change. Of an answer it has no body if it is a deletion, and no revisions
	// of what was before. For a gap it is a TYPE_GAP: what happened from PrevAll on (0 if that
	// is not known) and before Revision is not told, or only in part.
	Message *watchv1.Message
	// Reason says of a gap what it is, in words.
	Reason string
}

// Config says what is read.
type Config struct {
	// Conn is the bus; required.
	Conn *bus.Conn
	// View is what is read; a resource is required.
	View View
	// Objects gives the objects that are there first, as if they had just been changed.
	Objects bool
	// History begins with what the log still has: from Since on if it is set, and only what
	// happened after revision After if that is set.
	History bool
	Since   time.Time
	After   int64
	// Resolve asks for bodies that were left out of messages.
	Resolve bool
	// Once ends the reading where it would go on with what happens from now on.
	Once bool
	// Logger gets what is repaired; nil for nobody.
	Logger *slog.Logger
}

const (
	// buffered is how many live messages may wait. More are lost, which is noticed.
	buffered = 4096
	// silence is how long there may be no progress before it is asked for.
	silence = 15 * time.Second
	// quiet is how seldom a part of a resource asks when only the rest of it changes.
	quiet = 10 * time.Second
	// insist is how long one ask waits for its answer, and how long to wait before the next.
	insist, pause = 5 * time.Second, time.Second
)

// ErrRefused says that the apiservers refuse to tell: the view may not be read, or its
// resource is not served.
var ErrRefused = errors.New("the apiserver refuses")

// reader is one reading.
type reader struct {
	Config
	emit  func(Record) error
	live  chan bus.Message
	lost  chan struct{} // gets a value when live messages were lost
	place position
	asked time.Time // for the quiet turn
}

// Read gives every change to emit, until ctx ends, emit fails, or the apiservers refuse.
func Read(ctx context.Context, cfg Config, emit func(Record) error) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	r := &reader{
		Config: cfg, emit: emit, live: make(chan bus.Message, buffered), lost: make(chan struct{}, 1),
		place: position{view: cfg.View},
	}
	defer cfg.Conn.OnReconnect(r.disturbed)()
	subjects := []string{bus.ViewSubject(cfg.View.Group, cfg.View.Resource, cfg.View.Scope, cfg.View.Namespace, cfg.View.Name)}
	if !cfg.View.wire().Whole() {
		subjects = append(subjects, bus.ProgressSubject(cfg.View.Group, cfg.View.Resource))
	}
	sub, err := cfg.Conn.SubscribeAll(ctx, subjects, r.take, bus.OnLoss(func(err error) {
		if errors.Is(err, bus.ErrDenied) {
			cancel(fmt.Errorf("%w: %w", ErrRefused, err))
			return
		}
		r.disturbed()
	}))
	if err != nil {
		cancel(nil)
		return err
	}
	defer func() {
		cancel(nil)
		<-sub.Done()
	}()
	if err := cfg.Conn.Flush(ctx); err != nil {
		return err
	}
	err = r.run(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, ErrRefused) {
		return cause
	}
	return err
}

// wire is the view as the fabric reads it.
func (v View) wire() fabric.View { return fabric.View(v) }

func (r *reader) disturbed() {
	select {
	case r.lost <- struct{}{}:
	default:
	}
}

// take keeps a live message until its turn.
func (r *reader) take(m bus.Message) {
	select {
	case r.live <- m:
	default:
		r.disturbed()
	}
}

func (r *reader) run(ctx context.Context) error {
	if err := r.begin(ctx); err != nil || r.Once {
		return err
	}
	heard := time.NewTimer(silence)
	defer heard.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.lost:
			err = r.ask(ctx, 0)
		case <-heard.C:
			err = r.ask(ctx, 0)
			heard.Reset(insist)
		case m := <-r.live:
			if err = r.message(ctx, m); err == nil {
				heard.Reset(silence)
			}
		}
		if errors.Is(err, errNoAnswer) {
			r.Logger.Warn("No apiserver answers; asking again", "err", err)
			heard.Reset(pause)
			err = nil
		}
		if err != nil {
			return err
		}
	}
}

// begin reads what was: the objects, or the log, or nothing but where the present is.
func (r *reader) begin(ctx context.Context) error {
	for {
		err := r.present(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, errNoAnswer) {
			return err
		}
		r.Logger.Warn("No apiserver answers; asking again", "err", err)
	}
	if !r.History {
		return nil
	}
	present := r.place
	r.place = position{view: r.View, history: present.history, revision: r.After, known: r.After > 0}
	if err := r.replay(ctx); err != nil {
		return err
	}
	if !r.place.known {
		r.place = present
		return nil
	}
	// What came meanwhile, message by message, as far as it follows.
	for len(r.live) > 0 {
		if err := r.message(ctx, <-r.live); err != nil && !errors.Is(err, errNoAnswer) {
			return err
		}
	}
	if r.place.revision < present.revision && r.place.history == present.history {
		if err := r.ask(ctx, present.revision); err != nil && !errors.Is(err, errNoAnswer) {
			return err
		}
	}
	return nil
}

// message takes a live message.
func (r *reader) message(ctx context.Context, raw bus.Message) error {
	view := r.View.wire()
	m, err := view.Message(raw.Subject, raw.Data)
	if err != nil { // I6, P3
		r.Logger.Warn("Discarded a watch message", "err", err)
		return nil
	}
	if m.GetType() == watchv1.Type_TYPE_PROGRESS {
		return r.progress(ctx, m)
	}
	if !view.Covers(m) {
		return nil
	}
	switch r.place.judge(m) {
	case repeated:
		return nil
	case behind: // I2
		return r.ask(ctx, m.GetRevision())
	case follows:
	}
	if m.GetOmitted() && r.Resolve {
		return r.ask(ctx, m.GetRevision())
	}
	return r.change(Record{Origin: Live, Message: m})
}

// change emits a change that follows.
func (r *reader) change(record Record) error {
	r.place.step(record.Message)
	return r.emit(record)
}

// progress takes a progress message: I3.
func (r *reader) progress(ctx context.Context, m *watchv1.Message) error {
	switch r.place.judge(m) {
	case repeated:
		return nil
	case follows:
		r.place.pass(m.GetRevision())
		return nil
	case behind:
	}
	if !r.View.wire().Whole() && r.place.history == fabric.HistoryOf(m.GetHistory()) && time.Since(r.asked) < quiet {
		return nil
	}
	return r.ask(ctx, m.GetPrevAll())
}

// gap says that changes are missing.
func (r *reader) gap(origin Record, after, before int64, reason string) error {
	return r.emit(Record{Origin: Missing, Time: origin.Time, Reason: reason, Message: &watchv1.Message{
		History: fabric.WireHistory(r.place.history), Type: watchv1.Type_TYPE_GAP, Group: r.View.Group, Resource: r.View.Resource,
		PrevAll: after, Revision: before,
	}})
}
