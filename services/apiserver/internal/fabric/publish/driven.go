package publish

import (
	"context"
	"errors"
	"time"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/feed"
)

// Driven publishes one kind without goroutines, a clock and an election: its owner says when.
// All that it decides is decided by the code of the publishers that run. It is for simulations.
type Driven struct {
	resource *resource
	watcher  *feed.Watcher
	fresh    bool
}

// ErrAhead says that the log is ahead of the feed: P1.
var ErrAhead = errors.New("the log is ahead of the feed")

// NewDriven makes a publisher that publishes nothing before Begin. Of cfg, Parts is not used;
// log is nil for none. Feeds, the bus and the log must not make it wait.
func NewDriven(cfg Config, kind *scheme.Kind, log Log) *Driven {
	p := New(cfg)
	j := newJournal(nil, p.cfg.Logger)
	if log != nil {
		j.open = func(context.Context) (Log, error) { return log, nil }
		j.set(log)
	}
	return &Driven{resource: newResource(p, kind, j)}
}

// Begin begins to publish. ErrAhead if the log says that another was further than the feed is;
// the owner begins again later, and no longer minds when wait is false.
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

// Step publishes at most one batch of the feed's; done if there is none. An error is the end
// until Begin.
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

// End ends the watch of the feed; what was sent is remembered.
func (d *Driven) End() {
	if d.watcher != nil {
		d.watcher.Stop()
		d.watcher = nil
	}
}
