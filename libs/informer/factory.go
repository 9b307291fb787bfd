package informer

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/informer/internal/metrics"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/scheme"
)

// FactoryConfig is the configuration that the informers of a factory share.
type FactoryConfig = Config

// Factory creates and runs informers, one for each view of a resource, shared by all callers
// (client-go, informers.SharedInformerFactory).
type Factory struct {
	cfg     Config
	metrics *metrics.Metrics

	mu        sync.Mutex
	informers map[viewKey]*member
	// fresh are the informers that Run has not started yet.
	fresh   []*member
	started bool
	wake    chan struct{}
}

type viewKey struct {
	kind *scheme.Kind
	view View
}

// member is one informer of a factory.
type member struct {
	informer running
	// kept means that For returned the informer, so it stays; users counts the Acquire calls not
	// yet released.
	kept  bool
	users int
	// stop ends the informer; nil until it is started.
	stop context.CancelFunc
}

// running is what a factory does with an informer of any type.
type running interface {
	Run(ctx context.Context) error
	HasSyncedChecker() DoneChecker
	WaitForRevision(ctx context.Context, revision int64) error
	Status() watcher.Status
	end()
	handlers() []DoneChecker
}

// NewFactory creates a factory. It starts nothing.
func NewFactory(cfg FactoryConfig) *Factory {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Factory{
		cfg:       cfg,
		metrics:   metrics.New(cfg.Registerer),
		informers: map[viewKey]*member{},
		wake:      make(chan struct{}, 1),
	}
}

// For returns the factory's informer of the whole resource of T. It panics if T is not served.
func For[T Object](f *Factory) SharedInformer[T] { return ForView[T](f, View{}) }

// ForView returns the factory's informer of one view of the resource of T; the informer lasts until
// the factory ends. An informer first requested after Run has begun is started at once.
func ForView[T Object](f *Factory, view View) SharedInformer[T] {
	return ForKind[T](f, scheme.For[T](f.cfg.Table), view)
}

// ForKind is ForView for a kind of the factory's table whose objects are Ts. Those of a custom kind
// are *unstructured.Unstructured.
func ForKind[T Object](f *Factory, kind *scheme.Kind, view View) SharedInformer[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, informer := memberFor[T](f, viewKey{kind: kind, view: view})
	m.kept = true
	return informer
}

// Acquire returns the factory's informer of one view of the resource of T until release is called.
// The informer ends, with all its handlers, when its last user has released it, unless For or
// ForView returned it too. A later caller gets a new informer. Releasing twice does nothing.
func Acquire[T Object](f *Factory, view View) (informer SharedInformer[T], release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := viewKey{kind: scheme.For[T](f.cfg.Table), view: view}
	m, informer := memberFor[T](f, key)
	m.users++
	return informer, sync.OnceFunc(func() { f.release(key, m) })
}

// memberFor finds or creates an informer. The caller holds the lock.
func memberFor[T Object](f *Factory, key viewKey) (*member, SharedInformer[T]) {
	if m := f.informers[key]; m != nil {
		if existing, ok := m.informer.(*shared[T]); ok {
			return m, existing
		}
	}
	s := newShared[T](f.cfg, f.metrics, key.kind, key.view)
	m := &member{informer: s}
	f.informers[key] = m
	f.fresh = append(f.fresh, m)
	select {
	case f.wake <- struct{}{}:
	default:
	}
	return m, s
}

func (f *Factory) release(key viewKey, m *member) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.users--
	if m.users > 0 || m.kept {
		return
	}
	delete(f.informers, key)
	if m.stop != nil {
		m.stop()
		return
	}
	f.fresh = slices.DeleteFunc(f.fresh, func(other *member) bool { return other == m })
	m.informer.end()
}

// Run runs every informer that was or will be requested, until ctx ends or one of them fails. It
// returns when all have ended. A factory runs only once.
func (f *Factory) Run(ctx context.Context) error {
	f.mu.Lock()
	if f.started {
		f.mu.Unlock()
		return errors.New("running a factory of informers: already started")
	}
	f.started = true
	f.mu.Unlock()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		for {
			f.startFresh(ctx, group)
			select {
			case <-ctx.Done():
				// Informers requested in the meantime must end too, for the callers that wait for
				// them.
				f.startFresh(ctx, group)
				return nil
			case <-f.wake:
			}
		}
	})
	return group.Wait()
}

// startFresh starts the informers requested since its last call.
func (f *Factory) startFresh(ctx context.Context, group *errgroup.Group) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.fresh {
		running, stop := context.WithCancel(ctx)
		m.stop = stop
		group.Go(func() error {
			defer stop()
			return m.informer.Run(running)
		})
	}
	f.fresh = nil
}

// Watchers reports what each informer of the factory follows, and how far it and its handlers are
// behind. It sorts the informers by name.
func (f *Factory) Watchers() []watcher.Status {
	var watchers []watcher.Status
	for _, informer := range f.all() {
		watchers = append(watchers, informer.Status())
	}
	slices.SortFunc(watchers, func(a, b watcher.Status) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.View.Namespace, b.View.Namespace), cmp.Compare(a.View.Name, b.View.Name), cmp.Compare(a.View.Scope, b.View.Scope))
	})
	return watchers
}

func (f *Factory) all() []running {
	f.mu.Lock()
	defer f.mu.Unlock()
	informers := make([]running, 0, len(f.informers))
	for _, m := range f.informers {
		informers = append(informers, m.informer)
	}
	return informers
}

// WaitForCacheSync waits until every informer requested so far holds a whole view. Its error names
// those that do not. It does not wait for handlers, since a handler may be waiting for the caller.
func (f *Factory) WaitForCacheSync(ctx context.Context) error {
	informers := f.all()
	checkers := make([]DoneChecker, 0, len(informers))
	for _, informer := range informers {
		checkers = append(checkers, informer.HasSyncedChecker())
	}
	return WaitFor(ctx, "informers", checkers...)
}

// WaitForRevision waits until every informer requested so far is at revision or later. Its error
// names those that are not, for example informers of resources in a separate etcd cluster, which
// has other revisions.
func (f *Factory) WaitForRevision(ctx context.Context, revision int64) error {
	informers := f.all()
	faults := make([]error, len(informers))
	var waiting sync.WaitGroup
	for i, informer := range informers {
		waiting.Go(func() { faults[i] = informer.WaitForRevision(ctx, revision) })
	}
	waiting.Wait()
	return errors.Join(faults...)
}

// WaitForHandlerSync is WaitForCacheSync, and also waits until every registered handler has
// returned from its initial list.
func (f *Factory) WaitForHandlerSync(ctx context.Context) error {
	if err := f.WaitForCacheSync(ctx); err != nil {
		return err
	}
	var checkers []DoneChecker
	for _, informer := range f.all() {
		checkers = append(checkers, informer.handlers()...)
	}
	return WaitFor(ctx, "handlers", checkers...)
}
