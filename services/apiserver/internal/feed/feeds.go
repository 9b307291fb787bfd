package feed

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/store"
)

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
}

type Feeds struct{}
type Feed struct{}
type Watcher struct{}

var errTodo = errors.New("not written yet")

func New(cfg Config) *Feeds                                { return nil }
func (f *Feeds) Run(ctx context.Context) error             { return errTodo }
func (f *Feeds) Ready(ctx context.Context) error           { return errTodo }
func (f *Feeds) Of(kind *scheme.Kind) *Feed                { return nil }
func (f *Feed) WaitFor(ctx context.Context, r int64) error { return errTodo }
func (f *Feed) Snapshot(ctx context.Context, view View, minimum int64) ([]scheme.Object, int64, error) {
	return nil, 0, errTodo
}
func (f *Feed) Watch(ctx context.Context, view View, from int64) (*Watcher, error) {
	return nil, errTodo
}
func (f *Feed) SnapshotAndWatch(ctx context.Context, view View, minimum int64) ([]scheme.Object, int64, *Watcher, error) {
	return nil, 0, nil, errTodo
}
func (w *Watcher) Events() <-chan Batch { return nil }
func (w *Watcher) Err() error           { return nil }
func (w *Watcher) Stop()                {}
