package feed

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/scheme"
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
	History(ctx context.Context) (store.History, error)
	RenewHistory(ctx context.Context, old store.History) (store.History, error)
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

// Feeds are the feeds of all stored kinds.
type Feeds struct {
	feeds  map[schema.GroupVersionKind]*Feed
	epochs map[*store.Store]*epoch
}

// New returns one feed for each stored kind of the table. Nothing happens before Run.
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
	m := newMetrics(cfg.Registerer)
	cache := &encodingCache{room: cfg.EncodedBytes, encoded: m.encoded}
	epochs := map[*store.Store]*epoch{}
	for _, one := range cfg.Store.Clusters() {
		epochs[one] = newEpoch()
	}
	f := &Feeds{feeds: map[schema.GroupVersionKind]*Feed{}, epochs: epochs}
	for _, kind := range cfg.Table.Kinds() {
		if kind.Stored() {
			own := cfg
			own.Store = cfg.Store.Of(kind)
			f.feeds[kind.GroupVersionKind] = newFeed(own, own.Store, kind, m, epochs[own.Store], cache)
		}
	}
	return f
}

// Run follows etcd until ctx ends and every feed has ended.
func (f *Feeds) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, feed := range f.feeds {
		group.Go(func() error { return feed.run(ctx) })
	}
	for cluster, epoch := range f.epochs {
		group.Go(func() error { return f.keep(ctx, cluster, epoch) })
	}
	return group.Wait()
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
		for _, feed := range f.feeds {
			if feed.epoch == epoch && feed.leaves(ctx, history) {
				epoch.next(present)
				break
			}
		}
	}
	return nil
}

// Ready waits until every feed can be read.
func (f *Feeds) Ready(ctx context.Context) error {
	for _, feed := range f.feeds {
		if err := feed.WaitFor(ctx, 0); err != nil {
			return fmt.Errorf("the watch cache of %s is not ready: %w", feed.kind.GroupResource(), err)
		}
	}
	return nil
}

// Of returns the feed of kind's stored kind; nil if the table does not have that.
func (f *Feeds) Of(kind *scheme.Kind) *Feed { return f.feeds[kind.Storage] }
