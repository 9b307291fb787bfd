// Package changefeed streams the changes in a view of a resource one by one, for programs that keep
// no store. It starts from now, or from the past as far as the log reaches, and emits each change
// once and in revision order. Programs that need the current state rather than the changes use
// libs/informer.
//
// It applies the rules of the watch fabric to a list of changes. Where messages were lost it asks,
// and gets the newest state of the objects that changed meanwhile. Where no apiserver can tell what
// happened it emits a gap record, and never skips changes silently.
package changefeed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/fabric/wire"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
)

// Origin is the source of a record.
type Origin string

// Origins.
const (
	// Live is a message that arrived when the change happened.
	Live Origin = "live"
	// Logged is a message from the log.
	Logged Origin = "log"
	// Answered is from an apiserver's answer: the newest state of an object that has changed at
	// least once since the previous record.
	Answered Origin = "answer"
	// Present is an object that existed when the reading began.
	Present Origin = "present"
	// Missing is a gap.
	Missing Origin = "gap"
)

// Record is one change, or a gap.
type Record struct {
	Origin Origin
	// Time is when the log stored the message; zero if it is not from the log.
	Time time.Time
	// Message is the change. From an answer, a deletion has no body, and no message has the
	// revisions before it. A gap is a TYPE_GAP: what happened after PrevAll (0 if unknown) and
	// before Revision is missing, or known only in part.
	Message *watchv1.Message
	// Reason describes a gap in words.
	Reason string
}

// Config sets what Read reads.
type Config struct {
	// Conn is the bus; required.
	Conn *bus.Conn
	// Resource is the resource to read; required. View is the part of it to read.
	Resource schema.GroupResource
	View     fabric.View
	// Objects emits the present objects first, as if they had just been changed.
	Objects bool
	// History begins with what the log still holds: from Since on if it is set, and only changes
	// after revision After if that is set.
	History bool
	Since   time.Time
	After   int64
	// Resolve asks for bodies that messages omit.
	Resolve bool
	// Once ends the reading where it would continue with live changes.
	Once bool
	// Logger receives reports of repairs; nil discards them.
	Logger *slog.Logger
}

const (
	// buffered is how many live messages may wait. Read drops further ones, and notices.
	buffered = 4096
	// silence is how long Read waits for a message before it asks.
	silence = 15 * time.Second
	// quiet is the shortest interval between two asks about a part of a resource while only the
	// rest of the resource changes.
	quiet = 10 * time.Second
	// insist is how long one ask waits for its answer, pause the wait before the next ask.
	insist, pause = 5 * time.Second, time.Second
)

// ErrRefused means that the apiservers refuse to answer: the client may not read the view, or its
// resource is not served.
var ErrRefused = errors.New("the apiserver refuses")

// reader is the state of one Read.
type reader struct {
	Config
	emit  func(Record) error
	live  chan bus.Message
	lost  chan struct{} // receives a value when live messages were lost
	place position
	asked time.Time // for the quiet interval
}

// Read passes every change to emit, until ctx ends, emit fails, or the apiservers refuse.
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
	sub, err := cfg.Conn.SubscribeAll(ctx, wire.Subjects(cfg.Resource, cfg.View), r.enqueue, bus.OnLoss(func(err error) {
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

func (r *reader) disturbed() {
	select {
	case r.lost <- struct{}{}:
	default:
	}
}

// enqueue queues a live message.
func (r *reader) enqueue(m bus.Message) {
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
			r.Logger.Warn("no apiserver answers; retrying", "err", err)
			heard.Reset(pause)
			err = nil
		}
		if err != nil {
			return err
		}
	}
}

// begin emits the past: the present objects, or the log; or it only finds the present revision.
func (r *reader) begin(ctx context.Context) error {
	for {
		err := r.present(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, errNoAnswer) {
			return err
		}
		r.Logger.Warn("no apiserver answers; retrying", "err", err)
	}
	if !r.History {
		return nil
	}
	present := r.place
	r.place = position{view: r.View, at: fabric.Position{History: present.at.History, Revision: r.After}, known: r.After > 0}
	if err := r.replay(ctx); err != nil {
		return err
	}
	if !r.place.known {
		r.place = present
		return nil
	}
	// Live messages that arrived meanwhile, as far as they link.
	for len(r.live) > 0 {
		if err := r.message(ctx, <-r.live); err != nil && !errors.Is(err, errNoAnswer) {
			return err
		}
	}
	if r.place.at.Revision < present.at.Revision && r.place.at.History == present.at.History {
		if err := r.ask(ctx, present.at.Revision); err != nil && !errors.Is(err, errNoAnswer) {
			return err
		}
	}
	return nil
}

// message handles a live message.
func (r *reader) message(ctx context.Context, raw bus.Message) error {
	m, err := wire.Message(r.Resource, raw.Subject, raw.Data)
	if err != nil { // I6, P3
		r.Logger.Warn("discarded a watch message", "err", err)
		return nil
	}
	switch m.GetType() {
	case watchv1.Type_TYPE_PROGRESS:
		return r.progress(ctx, m)
	case watchv1.Type_TYPE_REMOVED: // The answer says whether that is so.
		return r.ask(ctx, m.GetRevision())
	}
	if !r.View.Covers(m) {
		return nil
	}
	switch r.place.judge(m) {
	case fabric.Known:
		return nil
	case fabric.Beyond: // I2
		return r.ask(ctx, m.GetRevision())
	case fabric.Next:
	}
	if m.GetOmitted() && r.Resolve {
		return r.ask(ctx, m.GetRevision())
	}
	return r.change(Record{Origin: Live, Message: m})
}

// change emits a change that follows the position.
func (r *reader) change(record Record) error {
	r.place.step(record.Message)
	return r.emit(record)
}

// progress handles a progress message (rule I3).
func (r *reader) progress(ctx context.Context, m *watchv1.Message) error {
	switch r.place.judge(m) {
	case fabric.Known:
		return nil
	case fabric.Next:
		r.place.pass(m.GetRevision())
		return nil
	case fabric.Beyond:
	}
	if !r.View.Whole() && r.place.at.History == fabric.HistoryOf(m.GetHistory()) && time.Since(r.asked) < quiet {
		return nil
	}
	return r.ask(ctx, m.GetPrevAll())
}

// gap emits that changes are missing.
func (r *reader) gap(origin Record, after, before int64, reason string) error {
	return r.emit(Record{Origin: Missing, Time: origin.Time, Reason: reason, Message: &watchv1.Message{
		History: r.place.at.History.Wire(), Type: watchv1.Type_TYPE_GAP, Group: r.Resource.Group, Resource: r.Resource.Resource,
		PrevAll: after, Revision: before,
	}})
}
