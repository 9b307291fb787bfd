package feed

import (
	"context"
	"errors"
	"log/slog"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/storage/encoded"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Stepper is the feed of one kind without goroutines or a clock. Its owner decides when it reads
// etcd, what etcd reports and when it doubts. Everything else is decided by the code of the real
// feeds. It is for simulations.
type Stepper struct {
	feed  *Feed
	epoch <-chan struct{}
}

// NewStepper returns a feed that cannot be read before Open. It does not use cfg.Store.
func NewStepper(cfg Config, storage Storage, kind *scheme.Kind) *Stepper {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	m := newMetrics(cfg.Registerer)
	return &Stepper{feed: newFeed(cfg, storage, kind, m, newEpoch(), encoded.NewCache(cfg.EncodedBytes, m.encoded))}
}

// Feed returns the feed for readers. Methods that wait return at once if their ctx has ended.
func (s *Stepper) Feed() *Feed { return s.feed }

// Feeds returns a set that holds only this feed.
func (s *Stepper) Feeds() *Feeds {
	f := &Feeds{cfg: s.feed.cfg, metrics: s.feed.metrics, cache: s.feed.cache}
	f.feeds.Store(s.feed.kind, s.feed)
	return f
}

// Open reads etcd anew at the start of the wanted window: F1.
func (s *Stepper) Open(ctx context.Context) error {
	s.epoch = s.feed.epoch.end()
	return s.feed.open(ctx, s.epoch)
}

// Apply applies an update from a watch of etcd and reports whether the watch may continue. If not,
// Check says how.
func (s *Stepper) Apply(update store.Update) (ok bool) { return s.feed.apply(update) == nil }

// Check must be called whenever the watch of etcd is opened again. It reports whether what the feed
// knows is still true; if not, call Open. H2.
func (s *Stepper) Check(ctx context.Context) (holds bool, err error) {
	err = s.feed.check(ctx, s.epoch)
	if errors.Is(err, errRestarted) {
		return false, nil
	}
	return err == nil, err
}

// Look must be called now and then. It reports whether the feed still belongs to etcd's history; if
// not, call Open. H2.
func (s *Stepper) Look(ctx context.Context) (same bool, err error) {
	history, err := s.feed.storage.History(ctx)
	return err == nil && !s.feed.leaves(ctx, history), err
}

// Over reports whether a new history has begun in this process, so that Open must be called: H2.
func (s *Stepper) Over() bool {
	select {
	case <-s.epoch:
		return true
	default:
		return false
	}
}

// Forget simulates the end of the feed's process, or the moment before it reads etcd anew: watches
// end, and nothing can be read.
func (s *Stepper) Forget() { s.feed.reset(nil, 0) }
