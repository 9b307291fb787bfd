package informer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/fabric"
	"github.com/garboard/garboard/libs/informer/internal/batch"
	"github.com/garboard/garboard/libs/informer/internal/cache"
	"github.com/garboard/garboard/libs/informer/internal/interval"
	"github.com/garboard/garboard/libs/informer/internal/lag"
	"github.com/garboard/garboard/libs/informer/internal/metrics"
	"github.com/garboard/garboard/libs/informer/internal/mutation"
	"github.com/garboard/garboard/libs/informer/internal/pending"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
)

// ErrStopped is returned when an informer is used after it has ended.
var ErrStopped = errors.New("the informer has ended")

// ErrStarted is returned for calls that are allowed only before an informer has started.
var ErrStarted = errors.New("the informer has started")

// DetectMutationsVariable is the environment variable that, when true, makes every informer check
// whether callers changed objects of its store (client-go's name).
const DetectMutationsVariable = mutation.Variable

// DefaultBacklog is the default of Config.Backlog.
const DefaultBacklog = 10_000

// Config is the configuration that informers share.
type Config struct {
	// Source creates the followers of views.
	Source Source
	// Table finds the kind of a Go type.
	Table *scheme.Table
	// Logger logs faults; slog.Default when nil.
	Logger *slog.Logger
	// Registerer registers the metrics; none when nil. Several informers may share one.
	Registerer prometheus.Registerer
	// Trace records a hop for each change; none when nil.
	Trace *trace.Recorder
	// Service is the name of the program that follows, in hops and metrics.
	Service string
	// Transform changes every object, of any kind, before it is stored (see TransformFunc); none
	// when nil. It must return an object of the type that it got.
	Transform func(obj Object) (Object, error)
	// Resync is the resync period for handlers of a kind that set none of their own; never when nil
	// or 0.
	Resync func(kind *scheme.Kind) time.Duration
	// Backlog is the number of pending notifications from which a handler's pending updates of one
	// object coalesce into one, from the oldest state to the newest. Updates of another UID, adds
	// and deletes never coalesce. 0 means DefaultBacklog; negative means never. Below Backlog a
	// handler gets every change.
	Backlog int
	// DetectMutations checks every second whether callers changed objects of the store. It is for
	// tests. The environment variable DetectMutationsVariable, when true, turns it on as well.
	DetectMutations bool
	// OnMutation is called with each mutation found. When nil, the detector panics.
	OnMutation func(error)
}

// NewSharedInformer creates an informer of one view of the kind of T. It does nothing until Run. It
// panics if T is not in the table.
func NewSharedInformer[T Object](cfg Config, view View) SharedInformer[T] {
	return newShared[T](cfg, metrics.New(cfg.Registerer), scheme.For[T](cfg.Table), view)
}

func newShared[T Object](cfg Config, m *metrics.Metrics, kind *scheme.Kind, view View) *shared[T] {
	logger := cfg.Logger
	if logger == nil {
		logger = slog.Default()
	}
	resource := kind.GroupResource().String()
	gvk := kind.GroupVersionKind
	s := &shared[T]{
		kind: kind, view: view, name: resource,
		logger:  logger.With("resource", resource),
		trace:   cfg.Trace,
		service: cfg.Service,
		metrics: m,
		changes: m.Changes.WithLabelValues(cfg.Service, resource),
		latency: m.Latency.WithLabelValues(cfg.Service, gvk.Group, gvk.Version, kind.Resource),
		backlog: cfg.Backlog,
		store:   cache.New[T](),
		queue:   newQueue(),
		synced:  make(chan struct{}),
		stopped: make(chan struct{}),
	}
	if s.backlog == 0 {
		s.backlog = DefaultBacklog
	}
	if cfg.Resync != nil {
		s.resyncPeriod = cfg.Resync(kind)
	}
	if cfg.Transform != nil {
		s.transform = func(obj T) (T, error) {
			transformed, err := cfg.Transform(obj)
			if err != nil {
				return obj, err
			}
			result, ok := transformed.(T)
			if !ok {
				return obj, fmt.Errorf("the function returned a %T for a %T", transformed, obj)
			}
			return result, nil
		}
	}
	s.detector = mutation.New(cfg.DetectMutations, s.String(), cfg.OnMutation)
	s.follower = cfg.Source.Follower(kind, view, s)
	return s
}

// shared implements SharedInformer. It is the Sink of its follower.
type shared[T Object] struct {
	kind         *scheme.Kind
	view         View
	name         string
	logger       *slog.Logger
	trace        *trace.Recorder
	service      string
	metrics      *metrics.Metrics
	changes      prometheus.Counter
	latency      prometheus.Observer
	backlog      int
	resyncPeriod time.Duration
	store        *cache.Cache[T]
	queue        *batch.Queue[statement]
	detector     *mutation.Detector
	follower     Follower
	progress     lag.Progress
	// transform is set before the informer starts and only read afterwards.
	transform TransformFunc[T]

	// mu makes a change to the store and its hand-over to the listeners one step, so that a late
	// listener misses nothing and gets nothing twice.
	mu         sync.Mutex
	watchError func(ctx context.Context, err error)
	listeners  []*listener[T]
	isSynced   bool
	synced     chan struct{} // closed with the first whole view
	moved      chan struct{} // closed when the revision rises; nil while no caller waits
	started    atomic.Bool   // written under mu
	ended      bool
	stopped    chan struct{} // closed when the follower has ended
	running    sync.WaitGroup
	// pending and now belong to process: the calls that the current batch owes to handlers, and
	// since when.
	pending []pending.Call[T]
	now     int64
	// history is the history of the store's content.
	history fabric.History
	trail   interval.Trail
}

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

// Indexer returns the store.
func (s *shared[T]) Indexer() Indexer[T] { return contents[T]{s.store} }

// Lister returns a Lister of the store.
func (s *shared[T]) Lister() Lister[T] { return NewLister(s.Indexer(), s.kind.GroupResource()) }

// HasSynced reports whether the store holds a whole view.
func (s *shared[T]) HasSynced() bool { return isClosed(s.synced) }

// HasSyncedChecker returns a checker that is done when HasSynced is true.
func (s *shared[T]) HasSyncedChecker() DoneChecker { return checker{name: s.String(), done: s.synced} }

// HasStarted reports whether Run was called.
func (s *shared[T]) HasStarted() bool { return s.started.Load() }

// IsStopped reports whether the informer has ended.
func (s *shared[T]) IsStopped() bool { return isClosed(s.stopped) }

// Revision is the etcd revision of which the store is the exact content.
func (s *shared[T]) Revision() int64 { return s.store.Revision() }

// LastSyncResourceVersion is Revision as a resourceVersion.
func (s *shared[T]) LastSyncResourceVersion() string { return s.store.LastStoreSyncResourceVersion() }

// SetTransform passes every object to a function before it is stored.
func (s *shared[T]) SetTransform(transform TransformFunc[T]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started.Load() {
		return fmt.Errorf("setting the transform of %s: %w", s.name, ErrStarted)
	}
	s.transform = transform
	return nil
}

// SetWatchErrorHandler sets the function that is called when the view cannot be followed.
func (s *shared[T]) SetWatchErrorHandler(handler func(ctx context.Context, err error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started.Load() {
		return fmt.Errorf("setting the watch error handler of %s: %w", s.name, ErrStarted)
	}
	s.watchError = handler
	return nil
}

// AddIndexers adds indexes.
func (s *shared[T]) AddIndexers(indexers Indexers[T]) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return fmt.Errorf("adding indexes of %s: %w", s.name, ErrStopped)
	}
	faults, err := cache.AddIndexers(s.store, indexers)
	if len(faults) > 0 {
		s.fault("index", faults[0]) // Handled like an object that arrives later and cannot be indexed.
	}
	return err
}

// WaitForRevision returns when the store is at revision or later.
func (s *shared[T]) WaitForRevision(ctx context.Context, revision int64) error {
	asked := false
	for {
		s.mu.Lock()
		if s.moved == nil {
			s.moved = make(chan struct{})
		}
		moved := s.moved
		s.mu.Unlock()
		at := s.Revision()
		if at >= revision && s.HasSynced() {
			return nil
		}
		if !asked {
			asked = true
			defer s.progress.Want(revision, time.Now())()
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

// Run follows the view until ctx ends.
func (s *shared[T]) Run(ctx context.Context) error {
	s.mu.Lock()
	if s.started.Load() {
		s.mu.Unlock()
		return fmt.Errorf("running the informer of %s: %w", s.name, ErrStarted)
	}
	s.started.Store(true)
	for _, l := range s.listeners {
		s.listen(l)
	}
	s.mu.Unlock()
	s.metrics.Statuses.Add(s)
	defer s.metrics.Statuses.Remove(s)

	var processing sync.WaitGroup
	processing.Go(s.processLoop)
	detecting, stopDetecting := context.WithCancel(ctx)
	defer stopDetecting()
	if s.detector != nil {
		s.running.Go(func() { s.detector.Run(detecting) })
	}

	err := s.follower.Run(ctx)

	s.queue.Close()
	processing.Wait()
	s.end()
	stopDetecting()
	s.running.Wait()
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("following %s: %w", s.name, err)
	}
	return nil
}

// end ends the informer for its users, after the last change.
func (s *shared[T]) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.started.Store(true)
	s.ended = true
	for _, l := range s.listeners {
		l.end()
	}
	close(s.stopped)
}

func (s *shared[T]) fault(what string, err error) {
	s.metrics.Faults.WithLabelValues(s.service, s.name, what).Inc()
	s.logger.Error("informer fault", "fault", what, "err", err)
}
