package informer

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
)

// FactoryConfig is what the informers of a factory share.
type FactoryConfig struct {
	// Source makes the followers of views.
	Source Source
	// Table finds the kind of a Go type.
	Table *scheme.Table
	// Logger takes faults; slog.Default when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; none when nil.
	Registerer prometheus.Registerer
	// Trace takes a hop for each change; none when nil.
	Trace *trace.Recorder
	// Service is who follows, in hops and metrics.
	Service string
}

// Factory makes and runs informers, one for each view of a resource, whoever asks for it
// (client-go, informers.SharedInformerFactory).
type Factory struct {
	cfg     Config
	metrics *metrics

	mu        sync.Mutex
	informers map[viewKey]running
	// fresh are the informers that Run has not started yet.
	fresh []running
	wake  chan struct{}
}

type viewKey struct {
	kind *scheme.Kind
	view View
}

// running is what a factory does with an informer, whatever its type.
type running interface {
	Run(ctx context.Context) error
	syncedSignal() <-chan struct{}
	String() string
}

// NewFactory makes a factory. It starts nothing.
func NewFactory(cfg FactoryConfig) *Factory {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Factory{
		cfg: Config{
			Source: cfg.Source, Table: cfg.Table, Logger: cfg.Logger,
			Registerer: cfg.Registerer, Trace: cfg.Trace, Service: cfg.Service,
		},
		metrics:   newMetrics(cfg.Registerer),
		informers: map[viewKey]running{},
		wake:      make(chan struct{}, 1),
	}
}

// For gives the factory's informer of the whole resource of T. It panics if T is not served.
func For[T Object](f *Factory) SharedInformer[T] { return ForView[T](f, View{}) }

// ForView gives the factory's informer of one view of the resource of T. One that is asked
// for after Run has begun is started at once.
func ForView[T Object](f *Factory, view View) SharedInformer[T] {
	key := viewKey{kind: scheme.For[T](f.cfg.Table), view: view}
	f.mu.Lock()
	defer f.mu.Unlock()
	if existing, ok := f.informers[key].(*shared[T]); ok {
		return existing
	}
	s := newShared[T](f.cfg, f.metrics, view)
	f.informers[key] = s
	f.fresh = append(f.fresh, s)
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return s
}

// Run runs every informer that was or will be asked for, until ctx ends or one of them
// fails; it returns when all have ended.
func (f *Factory) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			f.mu.Lock()
			fresh := f.fresh
			f.fresh = nil
			f.mu.Unlock()
			for _, informer := range fresh {
				group.Go(func() error { return informer.Run(ctx) })
			}
			select {
			case <-ctx.Done():
				return nil
			case <-f.wake:
			}
		}
	})
	return group.Wait()
}

// WaitForCacheSync waits until every informer asked for so far holds a whole view. Its error
// names those that do not.
func (f *Factory) WaitForCacheSync(ctx context.Context) error {
	f.mu.Lock()
	informers := make([]running, 0, len(f.informers))
	for _, informer := range f.informers {
		informers = append(informers, informer)
	}
	f.mu.Unlock()
	for _, informer := range informers {
		select {
		case <-informer.syncedSignal():
		case <-ctx.Done():
			return fmt.Errorf("waiting for informers: %s not synced: %w", unsynced(informers), context.Cause(ctx))
		}
	}
	return nil
}

func unsynced(informers []running) string {
	var names []string
	for _, informer := range informers {
		select {
		case <-informer.syncedSignal():
		default:
			names = append(names, informer.String())
		}
	}
	return strings.Join(names, ", ")
}

func (s *shared[T]) syncedSignal() <-chan struct{} { return s.synced }

// String names the resource and the view.
func (s *shared[T]) String() string {
	name := s.name
	if s.view.Namespace != "" {
		name += " in namespace " + s.view.Namespace
	}
	if s.view.Name != "" {
		name += " named " + s.view.Name
	}
	if s.view.Scope != "" {
		name += " of scope " + s.view.Scope
	}
	return name
}
