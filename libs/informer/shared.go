package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
)

// ErrStopped is the error of using an informer that has ended.
var ErrStopped = errors.New("the informer has ended")

// minimumResync is the shortest resync period; shorter ones are raised to it.
const minimumResync = time.Second

// Config is what informers share.
type Config struct {
	// Source makes the followers of views.
	Source Source
	// Table finds the kind of a Go type.
	Table *scheme.Table
	// Logger takes faults; slog.Default when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; none when nil. Several informers may share one.
	Registerer prometheus.Registerer
	// Trace takes a hop for each change; none when nil.
	Trace *trace.Recorder
	// Service is who follows, in hops and metrics.
	Service string
}

// NewSharedInformer makes an informer of one view of the kind of T. It does nothing until Run.
// It panics if T is not in the table.
func NewSharedInformer[T Object](cfg Config, view View) SharedInformer[T] {
	return newShared[T](cfg, newMetrics(cfg.Registerer), view)
}

func newShared[T Object](cfg Config, m *metrics, view View) *shared[T] {
	kind := scheme.For[T](cfg.Table)
	logger := cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	resource := kind.GroupResource().String()
	s := &shared[T]{
		kind: kind, view: view, name: resource,
		logger:  logger.With("resource", resource),
		trace:   cfg.Trace,
		service: cfg.Service,
		metrics: m,
		synced:  make(chan struct{}),
		stopped: make(chan struct{}),
		moved:   make(chan struct{}),
	}
	s.store = newStore[T](func(err error) { s.fault("index", err) })
	s.follower = cfg.Source.Follower(kind, view, s)
	return s
}

// shared is the SharedInformer. It is the Sink of its follower.
type shared[T Object] struct {
	kind     *scheme.Kind
	view     View
	name     string
	logger   *slog.Logger
	trace    *trace.Recorder
	service  string
	metrics  *metrics
	store    *store[T]
	follower Follower

	// mu makes one step of a change to the store and its hand-over to the listeners, so that
	// a late listener misses nothing and gets nothing twice.
	mu        sync.Mutex
	listeners []*listener[T]
	isSynced  bool
	synced    chan struct{} // closed with the first whole view
	moved     chan struct{} // closed, and replaced, when the revision rises
	started   bool
	ended     bool
	stopped   chan struct{} // closed when the follower has ended
	running   sync.WaitGroup
}

// Indexer is the store.
func (s *shared[T]) Indexer() Indexer[T] { return s.store }

// Lister reads the store.
func (s *shared[T]) Lister() Lister[T] { return NewLister[T](s.store, s.kind.GroupResource()) }

// HasSynced says whether the store holds a whole view.
func (s *shared[T]) HasSynced() bool {
	select {
	case <-s.synced:
		return true
	default:
		return false
	}
}

// Revision is the etcd revision of which the store is the exact content.
func (s *shared[T]) Revision() int64 { return s.store.at() }

// AddIndexers adds indexes.
func (s *shared[T]) AddIndexers(indexers Indexers[T]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return fmt.Errorf("adding indexes of %s: %w", s.name, ErrStopped)
	}
	return s.store.addIndexers(indexers)
}

// AddEventHandler adds a handler that is not resynced.
func (s *shared[T]) AddEventHandler(handler ResourceEventHandler[T]) (Registration, error) {
	return s.AddEventHandlerWithOptions(handler, HandlerOptions{})
}

// AddEventHandlerWithOptions adds a handler.
func (s *shared[T]) AddEventHandlerWithOptions(handler ResourceEventHandler[T], opts HandlerOptions) (Registration, error) {
	if handler == nil {
		return nil, fmt.Errorf("adding a handler of %s: it is nil", s.name)
	}
	l := &listener[T]{
		handler: handler,
		resync:  opts.ResyncPeriod,
		logger:  s.logger,
		pending: s.metrics.pending.WithLabelValues(s.service, s.name),
		panics:  s.metrics.faults.WithLabelValues(s.service, s.name, "panic"),
		wake:    make(chan struct{}, 1),
		ended:   make(chan struct{}),
		synced:  make(chan struct{}),
	}
	if l.resync > 0 {
		l.resync = max(l.resync, minimumResync)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return nil, fmt.Errorf("adding a handler of %s: %w", s.name, ErrStopped)
	}
	s.listeners = append(s.listeners, l)
	if s.isSynced {
		l.initial(s.store.List())
	}
	if s.started {
		s.listen(l)
	}
	return l, nil
}

// RemoveEventHandler ends the calls of a handler; one that runs may still end later. Removing
// twice, or at another informer, does nothing.
func (s *shared[T]) RemoveEventHandler(registration Registration) error {
	l, ok := registration.(*listener[T])
	if !ok {
		return fmt.Errorf("removing a handler of %s: a %T is no registration of this informer", s.name, registration)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	place := slices.Index(s.listeners, l)
	if place < 0 {
		return nil
	}
	s.listeners = slices.Delete(s.listeners, place, place+1)
	l.remove()
	return nil
}

// WaitForRevision returns when the store is at revision or later.
func (s *shared[T]) WaitForRevision(ctx context.Context, revision int64) error {
	asked := false
	for {
		s.mu.Lock()
		moved := s.moved
		s.mu.Unlock()
		at := s.Revision()
		if at >= revision && s.HasSynced() {
			return nil
		}
		if !asked {
			asked = true
			s.follower.Require(revision)
		}
		select {
		case <-moved:
		case <-s.stopped:
			return fmt.Errorf("waiting for revision %d of %s: at %d: %w", revision, s.name, at, ErrStopped)
		case <-ctx.Done():
			return fmt.Errorf("waiting for revision %d of %s: at %d: %w", revision, s.name, at, context.Cause(ctx))
		}
	}
}

// Run follows the view until ctx ends. It returns after the follower and all handlers have
// ended; what is still queued for handlers is dropped. An informer runs once.
func (s *shared[T]) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.started {
		s.mu.Unlock()
		return fmt.Errorf("running the informer of %s: it was started before", s.name)
	}
	s.started = true
	for _, l := range s.listeners {
		s.listen(l)
	}
	s.mu.Unlock()

	err := s.follower.Run(ctx)

	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	close(s.stopped)
	s.running.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("following %s: %w", s.name, err)
	}
	return nil
}

// listen starts a listener. The caller holds mu, and the informer has started and not ended.
func (s *shared[T]) listen(l *listener[T]) {
	s.running.Go(func() { l.run(s.stopped) })
	if l.resync > 0 {
		s.running.Go(func() { s.resyncLoop(l) })
	}
}

func (s *shared[T]) resyncLoop(l *listener[T]) {
	ticker := time.NewTicker(l.resync)
	defer ticker.Stop()
	for {
		select {
		case <-s.stopped:
			return
		case <-l.ended:
			return
		case <-ticker.C:
			s.resync(l)
		}
	}
}

// resync hands every object over again. One that a handler has not yet got through is not
// followed by the next.
func (s *shared[T]) resync(l *listener[T]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.isSynced || !l.startResync() {
		return
	}
	objects := s.store.List()
	notifications := make([]notification[T], 0, len(objects)+1)
	for _, obj := range objects {
		notifications = append(notifications, notification[T]{what: noticeUpdate, old: obj, obj: obj})
	}
	l.add(append(notifications, notification[T]{what: noticeResynced})...)
}

func (s *shared[T]) fault(what string, err error) {
	s.metrics.faults.WithLabelValues(s.service, s.name, what).Inc()
	s.logger.Error("informer fault", "fault", what, "err", err)
}
