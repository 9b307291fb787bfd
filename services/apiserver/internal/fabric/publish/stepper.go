package publish

import (
	"context"
	"errors"
	"time"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// Stepper publishes one kind without goroutines, a clock or an election: its owner decides when.
// Everything else is decided by the code of the real publishers. It is for simulations.
type Stepper struct {
	resource *resource
	watcher  *feed.Watcher
	fresh    bool
}

// ErrAhead reports that the log is ahead of the feed: P1.
var ErrAhead = errors.New("the log is ahead of the feed")

// NewStepper returns a publisher that publishes nothing before Begin. It does not use cfg.Parts; a
// nil log means that there is none. Feeds, the bus and the log must not block it.
func NewStepper(cfg Config, kind *scheme.Kind, log Log) *Stepper {
	p := New(cfg)
	j := newJournal(nil, nil, p.cfg.Logger)
	if log != nil {
		j.open = func(context.Context) (Log, error) { return log, nil }
		j.set(log)
	}
	return &Stepper{resource: newResource(p, kind, j)}
}

// Begin begins to publish. It returns ErrAhead if the log says that another publisher was further
// than the feed is. The owner then calls Begin again later; with wait false, Begin ignores that the
// log is ahead.
func (s *Stepper) Begin(ctx context.Context, wait bool) error {
	s.End()
	r := s.resource
	if err := r.feed.WaitFor(ctx, 0); err != nil {
		return err
	}
	r.enter(r.feed.History())
	cursor, err := r.cursor(ctx)
	if err != nil {
		return err
	}
	if r.ahead(cursor) {
		if wait {
			return ErrAhead
		}
		cursor = 0
	}
	watcher, err := r.watch(ctx, cursor)
	if err != nil {
		return err
	}
	s.watcher, s.fresh = watcher, false
	return nil
}

// Step publishes at most one batch of the feed's; done is true if there is none. After an error,
// call Begin again.
func (s *Stepper) Step(ctx context.Context, now time.Time) (done bool, err error) {
	if s.watcher == nil {
		return true, errWatchEnded
	}
	select {
	case batch, ok := <-s.watcher.Events():
		if !ok {
			s.watcher = nil
			return true, errWatchEnded
		}
		fresh := s.fresh
		s.fresh = true
		return false, s.resource.sendBatch(ctx, now, batch, fresh)
	default:
		return true, nil
	}
}

// End ends the watch of the feed; the publisher remembers what it sent.
func (s *Stepper) End() {
	if s.watcher != nil {
		s.watcher.Stop()
		s.watcher = nil
	}
}
