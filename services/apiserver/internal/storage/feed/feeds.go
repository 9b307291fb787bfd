package feed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/scheme/perkind"
	"github.com/garboard/garboard/services/apiserver/internal/storage/encoded"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
)

// Defaults of Config.
const (
	DefaultWindowEvents = 8192
	DefaultWindowBytes  = 16 << 20
	DefaultHistory      = 10_000
	DefaultEncodedBytes = 16 << 20
)

// Storage is what a feed needs of etcd: *store.Store, whose methods document the details.
type Storage interface {
	History(ctx context.Context) (fabric.History, error)
	RenewHistory(ctx context.Context, old fabric.History) (fabric.History, error)
	Revision(ctx context.Context) (int64, error)
	Oldest(ctx context.Context, atLeast int64) (int64, error)
	Scan(ctx context.Context, kind *scheme.Kind, revision int64, take func([]store.Record)) error
	Object(kind *scheme.Kind, record store.Record) (scheme.Object, error)
	Completed(kind *scheme.Kind, record store.Record, obj scheme.Object) ([]byte, error)
	Follow(ctx context.Context, kind *scheme.Kind, after int64, progress <-chan struct{}, take func(store.Update) error) error
	Holds(ctx context.Context, kind *scheme.Kind, record store.Record) (bool, error)
}

// Config configures the feeds.
type Config struct {
	// Store is the store that the feeds follow; required.
	Store *store.Store
	// Table is the set of kinds; required.
	Table *scheme.Table
	// Logger receives what is not returned to any caller; slog.Default if nil.
	Logger *slog.Logger
	// Registerer receives the feeds' metrics; if nil there are none.
	Registerer prometheus.Registerer
	// WindowEvents is the number of events that each feed keeps; DefaultWindowEvents if 0.
	WindowEvents int
	// WindowBytes bounds the stored bytes of the events that each feed keeps; DefaultWindowBytes if
	// 0.
	WindowBytes int
	// History is how many of etcd's revisions a starting feed reads back, if etcd still has them;
	// DefaultHistory if 0.
	History int64
	// Patience is how long a reader waits for a revision; DefaultPatience if 0.
	Patience time.Duration
	// EncodedBytes bounds the encoded objects that all feeds keep together; DefaultEncodedBytes if
	// 0.
	EncodedBytes int
}

// Feeds are the feeds of all stored kinds of a table. A feed begins when its kind is installed and
// ends when it is removed.
type Feeds struct {
	cfg     Config
	metrics *metrics
	cache   *encoded.Cache
	epochs  map[*store.Store]*epoch

	feeds sync.Map // of *Feed by the stored *scheme.Kind
}

// New returns the feeds of the table's stored kinds. Nothing happens before Run.
func New(cfg Config) *Feeds {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.WindowEvents == 0 {
		cfg.WindowEvents = DefaultWindowEvents
	}
	if cfg.WindowBytes == 0 {
		cfg.WindowBytes = DefaultWindowBytes
	}
	if cfg.Patience == 0 {
		cfg.Patience = DefaultPatience
	}
	if cfg.History == 0 {
		cfg.History = DefaultHistory
	}
	if cfg.EncodedBytes == 0 {
		cfg.EncodedBytes = DefaultEncodedBytes
	}
	f := &Feeds{cfg: cfg, metrics: newMetrics(cfg.Registerer), epochs: map[*store.Store]*epoch{}}
	f.cache = encoded.NewCache(cfg.EncodedBytes, f.metrics.encoded)
	for _, one := range cfg.Store.Clusters() {
		f.epochs[one] = newEpoch()
	}
	return f
}

// Run follows etcd until ctx ends and every feed has ended.
func (f *Feeds) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for cluster, epoch := range f.epochs {
		group.Go(func() error { return f.keep(ctx, cluster, epoch) })
	}
	group.Go(func() error {
		return perkind.Run(ctx, f.cfg.Table, func(ctx context.Context, kind *scheme.Kind) error {
			if !kind.Stored() {
				return nil
			}
			err := f.Of(kind).run(ctx)
			if errors.Is(context.Cause(ctx), scheme.ErrRemoved) {
				f.end(kind)
			}
			return err
		})
	})
	return group.Wait()
}

// end ends the feed of a removed kind.
func (f *Feeds) end(kind *scheme.Kind) {
	if found, ok := f.feeds.LoadAndDelete(kind); ok {
		if one, ok := found.(*Feed); ok {
			one.remove()
		}
	}
	f.cfg.Store.Forget(kind)
}

// keep checks periodically whether another process found that an etcd cluster was set back. Feeds
// that were behind the backup's revision may not notice that themselves: H2.
func (f *Feeds) keep(ctx context.Context, cluster *store.Store, epoch *epoch) error {
	for backoff.Sleep(ctx, backoff.Around(historyPeriod)) {
		present := epoch.end()
		history, err := cluster.History(ctx)
		if err != nil {
			continue // The feeds notice too, and log it.
		}
		f.feeds.Range(func(_, value any) bool {
			one, ok := value.(*Feed)
			if !ok || one.epoch != epoch || !one.leaves(ctx, history) {
				return true
			}
			epoch.next(present)
			return false
		})
	}
	return nil
}

// Ready waits until the feed of every kind that is installed now can be read.
func (f *Feeds) Ready(ctx context.Context) error {
	for _, kind := range f.cfg.Table.Kinds() {
		if !kind.Stored() {
			continue
		}
		if err := f.Of(kind).WaitFor(ctx, 0); err != nil && !errors.Is(err, scheme.ErrRemoved) {
			return fmt.Errorf("the watch cache of %s is not ready: %w", kind.GroupResource(), err)
		}
	}
	return nil
}

// Of returns the feed of kind's stored kind; nil for a virtual kind. The feed of a kind that is no
// longer installed fails with scheme.ErrRemoved.
func (f *Feeds) Of(kind *scheme.Kind) *Feed {
	if !kind.Stored() {
		if kind.Virtual {
			return nil
		}
		stored := f.cfg.Table.Kind(kind.Storage)
		if stored == nil {
			return f.removed(kind)
		}
		kind = stored
	}
	found, ok := f.feeds.Load(kind)
	if !ok {
		of := f.cfg.Store.Of(kind)
		found, _ = f.feeds.LoadOrStore(kind, newFeed(f.cfg, of, kind, f.metrics, f.epochs[of], f.cache))
		// Checked afterwards, so that a kind that is removed meanwhile leaves no feed behind.
		if !f.cfg.Table.Serves(kind) {
			f.end(kind)
		}
	}
	one, ok := found.(*Feed)
	if !ok {
		return f.removed(kind)
	}
	return one
}

func (f *Feeds) removed(kind *scheme.Kind) *Feed {
	one := newFeed(f.cfg, f.cfg.Store, kind, f.metrics, nil, f.cache)
	one.remove()
	return one
}
