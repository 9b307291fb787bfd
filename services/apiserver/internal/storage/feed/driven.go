package feed

import (
	"context"
	"errors"
	"log/slog"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Driven is the feed of one kind without goroutines or a clock. Its owner decides when it reads
// etcd, what etcd reports and when it doubts. Everything else is decided by the code of the real
// feeds. It is for simulations.
type Driven struct {
	feed  *Feed
	epoch <-chan struct{}
}

// NewDriven returns a feed that cannot be read before Open. It does not use cfg.Store.
func NewDriven(cfg Config, storage Storage, kind *scheme.Kind) *Driven {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	m := newMetrics(cfg.Registerer)
	return &Driven{feed: newFeed(cfg, storage, kind, m, newEpoch(), &encodingCache{room: cfg.EncodedBytes, encoded: m.encoded})}
}

// Feed returns the feed for readers. Methods that wait return at once if their ctx has ended.
func (d *Driven) Feed() *Feed { return d.feed }

// Feeds returns a set that holds only this feed.
func (d *Driven) Feeds() *Feeds {
	f := &Feeds{cfg: d.feed.cfg, metrics: d.feed.metrics, cache: d.feed.cache}
	f.feeds.Store(d.feed.kind, d.feed)
	return f
}

// Open reads etcd anew at the start of the wanted window: F1.
func (d *Driven) Open(ctx context.Context) error {
	d.epoch = d.feed.epoch.end()
	return d.feed.open(ctx, d.epoch)
}

// Apply applies an update from a watch of etcd and reports whether the watch may continue. If not,
// Check says how.
func (d *Driven) Apply(update store.Update) (ok bool) { return d.feed.apply(update) == nil }

// Check must be called whenever the watch of etcd is opened again. It reports whether what the feed
// knows is still true; if not, call Open. H2.
func (d *Driven) Check(ctx context.Context) (holds bool, err error) {
	err = d.feed.check(ctx, d.epoch)
	if errors.Is(err, errRestarted) {
		return false, nil
	}
	return err == nil, err
}

// Look must be called now and then. It reports whether the feed still belongs to etcd's history; if
// not, call Open. H2.
func (d *Driven) Look(ctx context.Context) (same bool, err error) {
	history, err := d.feed.storage.History(ctx)
	return err == nil && !d.feed.leaves(ctx, history), err
}

// Over reports whether a new history has begun in this process, so that Open must be called: H2.
func (d *Driven) Over() bool {
	select {
	case <-d.epoch:
		return true
	default:
		return false
	}
}

// Forget simulates the end of the feed's process, or the moment before it reads etcd anew: watches
// end, and nothing can be read.
func (d *Driven) Forget() { d.feed.reset(nil, 0) }
