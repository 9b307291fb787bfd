package feed

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"

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

// Truth is what a feed needs of etcd: *store.Store, whose methods say what each means.
type Truth interface {
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

// Config says what the feeds follow and how much they keep.
type Config struct {
	// Store is what they follow; required.
	Store *store.Store
	// Table is the set of kinds; required.
	Table *scheme.Table
	// Logger gets what no caller is told of; slog.Default if nil.
	Logger *slog.Logger
	// Registerer gets the feeds' metrics; none if nil.
	Registerer prometheus.Registerer
	// WindowEvents is how many events each feed keeps; DefaultWindowEvents if 0.
	WindowEvents int
	// WindowBytes bounds the stored bytes of the events that each feed keeps;
	// DefaultWindowBytes if 0.
	WindowBytes int
	// History is how many of etcd's revisions a starting feed reads back, if etcd still has
	// them; DefaultHistory if 0.
	History int64
	// Patience is how long a reader waits for a revision; DefaultPatience if 0.
	Patience time.Duration
	// EncodedBytes bounds what all feeds together keep of encoded objects; DefaultEncodedBytes
	// if 0.
	EncodedBytes int
}

// Feeds are the feeds of all stored kinds.
type Feeds struct {
	feeds map[schema.GroupVersionKind]*Feed
	eras  map[*store.Store]*era
}

// New makes one feed for each stored kind of the table. Nothing happens before Run.
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
	shelf := &shelf{room: cfg.EncodedBytes, encoded: m.encoded}
	eras := map[*store.Store]*era{}
	for _, one := range cfg.Store.Clusters() {
		eras[one] = newEra()
	}
	f := &Feeds{feeds: map[schema.GroupVersionKind]*Feed{}, eras: eras}
	for _, kind := range cfg.Table.Kinds() {
		if kind.Stored() {
			own := cfg
			own.Store = cfg.Store.Of(kind)
			f.feeds[kind.GroupVersionKind] = newFeed(own, own.Store, kind, m, eras[own.Store], shelf)
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
	for cluster, era := range f.eras {
		group.Go(func() error { return f.keep(ctx, cluster, era) })
	}
	return group.Wait()
}

// keep looks now and then whether another process has found out that an etcd cluster was set
// back, which the feeds need not notice if they were behind its backup: H2.
func (f *Feeds) keep(ctx context.Context, cluster *store.Store, era *era) error {
	for sleep(ctx, historyPeriod) {
		present := era.end()
		history, err := cluster.History(ctx)
		if err != nil {
			continue // The feeds notice too, and say so.
		}
		for _, feed := range f.feeds {
			if feed.era == era && feed.leaves(ctx, history) {
				era.next(present)
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

// Of is the feed of the kind that etcd holds for kind's objects; nil if that is not in the
// table.
func (f *Feeds) Of(kind *scheme.Kind) *Feed { return f.feeds[kind.Storage] }
