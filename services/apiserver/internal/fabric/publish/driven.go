package publish

import (
	"context"
	"errors"
	"time"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// Driven publishes one kind without goroutines, a clock or an election: its owner decides when.
// Everything else is decided by the code of the real publishers. It is for simulations.
type Driven struct {
	resource *resource
	watcher  *feed.Watcher
	fresh    bool
}

// ErrAhead reports that the log is ahead of the feed: P1.
var ErrAhead = errors.New("the log is ahead of the feed")

// NewDriven returns a publisher that publishes nothing before Begin. It does not use cfg.Parts; a
// nil log means that there is none. Feeds, the bus and the log must not block it.
func NewDriven(cfg Config, kind *scheme.Kind, log Log) *Driven {
	p := New(cfg)
	j := newJournal(nil, p.cfg.Logger)
	if log != nil {
		j.open = func(context.Context) (Log, error) { return log, nil }
		j.set(log)
	}
	return &Driven{resource: newResource(p, kind, j)}
}

// Begin begins to publish. It returns ErrAhead if the log says that another publisher was further
// than the feed is. The owner then calls Begin again later; with wait false, Begin ignores that the
// log is ahead.
func (d *Driven) Begin(ctx context.Context, wait bool) error {
	d.End()
	r := d.resource
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
	d.watcher, d.fresh = watcher, false
	return nil
}

// Step publishes at most one batch of the feed's; done is true if there is none. After an error,
// call Begin again.
func (d *Driven) Step(ctx context.Context, now time.Time) (done bool, err error) {
	if d.watcher == nil {
		return true, errWatchEnded
	}
	select {
	case batch, ok := <-d.watcher.Events():
		if !ok {
			d.watcher = nil
			return true, errWatchEnded
		}
		fresh := d.fresh
		d.fresh = true
		return false, d.resource.sendBatch(ctx, now, batch, fresh)
	default:
		return true, nil
	}
}

// End ends the watch of the feed; the publisher remembers what it sent.
func (d *Driven) End() {
	if d.watcher != nil {
		d.watcher.Stop()
		d.watcher = nil
	}
}
