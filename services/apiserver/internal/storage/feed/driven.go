package feed

import (
	"context"
	"errors"
	"log/slog"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Driven is the feed of one kind without goroutines and clock: its owner says when it reads
// etcd, what etcd tells it and when it doubts. All that it decides is decided by the code of
// the feeds that run. It is for simulations.
type Driven struct {
	feed *Feed
	era  <-chan struct{}
}

// NewDriven makes a feed that nothing can be read of before Open. Of cfg, Store is not used.
func NewDriven(cfg Config, truth Truth, kind *scheme.Kind) *Driven {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	m := newMetrics(cfg.Registerer)
	return &Driven{feed: newFeed(cfg, truth, kind, m, newEra(), &shelf{room: cfg.EncodedBytes, encoded: m.encoded})}
}

// Feed is what readers use. Those of its methods that wait return at once if their ctx has
// ended.
func (d *Driven) Feed() *Feed { return d.feed }

// Feeds is a set of the one feed.
func (d *Driven) Feeds() *Feeds {
	return &Feeds{feeds: map[schema.GroupVersionKind]*Feed{d.feed.kind.GroupVersionKind: d.feed}}
}

// Open reads etcd anew at the start of the wanted window: F1.
func (d *Driven) Open(ctx context.Context) error {
	d.era = d.feed.era.end()
	return d.feed.open(ctx, d.era)
}

// Take takes in what a watch of etcd says, and reports whether it may go on: if not, Check says
// how.
func (d *Driven) Take(update store.Update) (ok bool) { return d.feed.take(update) == nil }

// Check is due whenever the watch of etcd is opened again. It reports whether what the feed
// knows stays true; if not, Open is due. H2.
func (d *Driven) Check(ctx context.Context) (holds bool, err error) {
	err = d.feed.check(ctx, d.era)
	if errors.Is(err, errRestarted) {
		return false, nil
	}
	return err == nil, err
}

// Look is due now and then. It reports whether the feed is still of etcd's history; if not,
// Open is due. H2.
func (d *Driven) Look(ctx context.Context) (same bool, err error) {
	history, err := d.feed.truth.History(ctx)
	return err == nil && !d.feed.leaves(ctx, history), err
}

// Over says that a new history has begun in this process, so that Open is due: H2.
func (d *Driven) Over() bool {
	select {
	case <-d.era:
		return true
	default:
		return false
	}
}

// Forget is the end of the process that the feed is in, or the moment before it reads etcd
// anew: watches end, nothing can be read.
func (d *Driven) Forget() { d.feed.reset(nil, 0) }
