package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/workqueue"
	"github.com/garboard/garboard/libs/trace"
)

// Result is what follows a reconcile without an error.
type Result struct {
	// RequeueAfter asks for another reconcile after this time; none when 0.
	RequeueAfter time.Duration
}

// Func brings the object that key names closer to its desired state. It must be idempotent, and it
// must return soon after ctx has ended. It is never called concurrently for one key.
type Func[K comparable] func(ctx context.Context, key K) (Result, error)

// TerminalError marks an error that a retry will not fix, for example an invalid spec. The key is
// not retried.
func TerminalError(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err: err}
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return "terminal error: " + e.err.Error() }

func (e *terminalError) Unwrap() error { return e.err }

// ErrReconciliationTimeout is the cause of the context of a reconcile that took longer than
// Config.ReconciliationTimeout.
var ErrReconciliationTimeout = errors.New("the reconcile exceeded its timeout")

// Config configures a controller.
type Config[K comparable] struct {
	// Name is the controller's name in logs, metrics and traces.
	Name string
	// Workers is how many keys are reconciled at a time; 1 when 0.
	Workers int
	// Reconcile is called for each key.
	Reconcile Func[K]
	// Object returns a key that is the same for all keys of one object, if an object can have several.
	// Reconcile is then not called concurrently for them, and what was written for one holds back the
	// others (see Reads). When nil, each key is an object of its own.
	Object func(key K) K
	// RateLimiter delays keys that failed; workqueue.DefaultTypedControllerRateLimiter when nil.
	RateLimiter workqueue.TypedRateLimiter[K]
	// Priority gives keys priorities: keys of the handlers' initial lists and of resyncs then wait
	// for keys that have changed (see ByPriority). A key that fails or is requeued after a time
	// keeps its priority. While more keys change than the workers can handle, keys of low priority
	// starve.
	Priority bool
	// MaxRetries is how many times in a row a failing key is retried; for ever when 0.
	MaxRetries int
	// WaitFor returns what must be done before the first key is reconciled: the sync of informers
	// whose caches are read, and of registrations whose handlers enqueue. It is called once, when
	// Run begins, since handlers are created after the controller. When nil, Run waits for nothing.
	WaitFor func() []informer.DoneChecker
	// CacheSyncTimeout is how long Run waits for that before it fails; 2 min when 0, for ever when
	// negative.
	CacheSyncTimeout time.Duration
	// ReconciliationTimeout bounds one call of Reconcile by its context, whose cause is then
	// ErrReconciliationTimeout; none when 0.
	ReconciliationTimeout time.Duration
	// Reads are the caches that must show the last write for a key, made by a Recording client,
	// before the key is reconciled again. When nil, the controller does not wait.
	Reads *Caches
	// ReadTimeout bounds one wait for Reads; 5 s when 0. The key waits outside the queue and holds no
	// worker. After the timeout it goes back to the queue and is tried again a second later. 5 min
	// after its last write it is reconciled in any case, with an error in the log.
	ReadTimeout time.Duration
	// Logger logs one line per failure; slog.Default when nil.
	Logger *slog.Logger
	// Registerer registers the metrics; none when nil. Controllers may share one.
	Registerer prometheus.Registerer
	// Trace records the hops of queue and reconcile; none when nil.
	Trace *trace.Recorder
	// Resource is the resource that keys name, for hops: "deployments".
	Resource string
}

// New creates a controller. It starts nothing; keys may be enqueued at once.
func New[K comparable](cfg Config[K]) *Controller[K] {
	cfg.Workers = max(cfg.Workers, 1)
	cfg.CacheSyncTimeout = cmp.Or(cfg.CacheSyncTimeout, defaultSyncTimeout)
	cfg.ReadTimeout = cmp.Or(cfg.ReadTimeout, defaultReadTimeout)
	if cfg.RateLimiter == nil {
		cfg.RateLimiter = workqueue.DefaultTypedControllerRateLimiter[K]()
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	queue, priorities := newQueue(cfg)
	c := &Controller[K]{
		cfg:        cfg,
		logger:     cfg.Logger.With("controller", cfg.Name),
		queue:      queue,
		priorities: priorities,
		metrics:    newMetrics(cfg.Registerer, cfg.Name, cfg.Workers),
		writes:     writes[K]{caches: cfg.Reads},
		enqueued:   map[K]time.Time{},
	}
	c.parking.freed = c.freed
	return c
}

// Controller calls a Func for the enqueued keys.
type Controller[K comparable] struct {
	cfg    Config[K]
	logger *slog.Logger
	queue  workqueue.TypedRateLimitingInterface[K]
	// priorities is the queue, if it has priorities.
	priorities workqueue.TypedPriorityInterface[K]
	metrics    metrics
	writes     writes[K]
	busy       busy[K]
	parking    parking[K]
	started    atomic.Bool

	mu sync.Mutex
	// enqueued is when waiting keys were enqueued; kept only for traces.
	enqueued map[K]time.Time
}

const (
	// syncWarning is how often the log names what has not synced yet.
	syncWarning = 30 * time.Second
	// defaultSyncTimeout is the default of Config.CacheSyncTimeout, as in controller-runtime.
	defaultSyncTimeout = 2 * time.Minute
	// defaultReadTimeout is how long a key waits for a cache to show the last write.
	defaultReadTimeout = 5 * time.Second
	// staleDelay is when a key is tried again whose caches do not show the write by then.
	staleDelay = time.Second
)

// Run waits for Config.WaitFor, then reconciles until ctx ends. It returns when the workers have
// ended; waiting keys are dropped. It may be called once. It fails if the wait takes longer than
// CacheSyncTimeout.
func (c *Controller[K]) Run(ctx context.Context) error {
	if c.started.Swap(true) {
		return fmt.Errorf("running the controller %s: already started", c.cfg.Name)
	}
	defer c.queue.ShutDown()
	if err := c.waitForSync(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	c.logger.Debug("controller started", "workers", c.cfg.Workers)
	var workers sync.WaitGroup
	for range c.cfg.Workers {
		workers.Go(func() { c.work(ctx) })
	}
	<-ctx.Done()
	c.queue.ShutDown()
	workers.Wait()
	c.parking.waiters.Wait()
	return nil
}

// waitForSync returns when everything has synced or ctx has ended.
func (c *Controller[K]) waitForSync(ctx context.Context) error {
	if c.cfg.CacheSyncTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.cfg.CacheSyncTimeout, errSync)
		defer cancel()
	}
	warn := time.NewTicker(syncWarning)
	defer warn.Stop()
	var needed []informer.DoneChecker
	if c.cfg.WaitFor != nil {
		needed = c.cfg.WaitFor()
	}
	for _, each := range needed {
		for !informer.IsDone(each) {
			select {
			case <-each.Done():
			case <-ctx.Done():
				if errors.Is(context.Cause(ctx), errSync) {
					return fmt.Errorf("starting the controller %s: %s did not sync within %v",
						c.cfg.Name, unsynced(needed), c.cfg.CacheSyncTimeout)
				}
				return nil
			case <-warn.C:
				c.logger.Warn("controller is waiting for its caches", "unsynced", unsynced(needed))
			}
		}
	}
	return nil
}

var errSync = errors.New("the caches did not sync in time")

// unsynced names the checkers that are not done.
func unsynced(needed []informer.DoneChecker) string {
	var names []string
	for _, each := range needed {
		if !informer.IsDone(each) {
			names = append(names, each.Name())
		}
	}
	return strings.Join(names, ", ")
}

func (c *Controller[K]) work(ctx context.Context) {
	for {
		key, priority, shutdown := c.get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			c.process(ctx, key, priority)
		}
		c.queue.Done(key)
	}
}

// process reconciles one key and decides what follows. Done is called after it, so a key that
// process adds again cannot be with two workers.
func (c *Controller[K]) process(ctx context.Context, key K, priority int) {
	if !c.busy.enter(c.object(key)) {
		c.EnqueueWith(key, workqueue.AddOpts{After: busyDelay, Priority: priority})
		return
	}
	defer c.busy.leave(c.object(key))
	waited := c.waited(key)
	if !c.fresh(ctx, key, priority, waited) {
		return
	}
	c.hop(key, trace.Queue, waited, "")
	c.metrics.active.Inc()
	start := time.Now()
	result, err := c.call(c.traced(ctx, key), key)
	took := time.Since(start)
	c.metrics.active.Dec()
	c.metrics.time.Observe(took.Seconds())

	outcome := "success"
	var terminal *terminalError
	switch {
	case err == nil && result.RequeueAfter > 0:
		outcome = "requeue_after"
		c.queue.Forget(key)
		c.EnqueueWith(key, workqueue.AddOpts{After: result.RequeueAfter, Priority: priority})
	case err == nil:
		c.queue.Forget(key)
	case ctx.Err() != nil:
		return // The controller is ending; the error comes from that.
	case errors.As(err, &terminal):
		outcome = "error"
		c.metrics.errors.Inc()
		c.metrics.terminal.Inc()
		c.logger.Error("reconcile failed permanently", "key", key, "err", err)
	case c.cfg.MaxRetries > 0 && c.queue.NumRequeues(key) >= c.cfg.MaxRetries:
		outcome = "error"
		c.metrics.errors.Inc()
		c.logger.Error("reconcile failed too often; dropping the key", "key", key, "retries", c.cfg.MaxRetries, "err", err)
		c.queue.Forget(key)
	default:
		outcome = "error"
		c.metrics.errors.Inc()
		c.logger.Warn("reconcile failed; retrying", "key", key, "failures", c.queue.NumRequeues(key)+1, "err", err)
		c.EnqueueWith(key, workqueue.AddOpts{RateLimited: true, Priority: priority})
	}
	if err != nil && result.RequeueAfter != 0 {
		c.logger.Warn("reconcile returned both RequeueAfter and an error; ignoring RequeueAfter", "key", key, "after", result.RequeueAfter)
	}
	c.metrics.total.WithLabelValues(c.cfg.Name, outcome).Inc()
	c.hop(key, trace.Reconcile, took, outcome)
}

// fresh reports whether the caches show the last write for key. If they do not, key is parked until
// they do or ReadTimeout has passed. If it is unknown what was written, key is retried.
func (c *Controller[K]) fresh(ctx context.Context, key K, priority int, queued time.Duration) bool {
	record := c.writes.get(c.object(key))
	if record == nil {
		c.parking.take(key)
		return true
	}
	if err := record.settle(ctx); err != nil {
		if ctx.Err() == nil {
			c.metrics.errors.Inc()
			c.logger.Warn("the outcome of a creation is unknown; asking again", "key", key, "failures", c.queue.NumRequeues(key)+1, "err", err)
			c.EnqueueWith(key, workqueue.AddOpts{RateLimited: true, Priority: priority})
		}
		return false
	}
	if on, revision := record.behind(c.cfg.Reads); on != nil {
		now := time.Now()
		c.parking.park(ctx, &parked[K]{
			key: key, priority: priority, record: record, queued: queued, revision: revision, since: now, until: now.Add(c.cfg.ReadTimeout),
		}, on)
		return false
	}
	c.writes.forget(c.object(key), record)
	var waited time.Duration
	if p := c.parking.take(key); p != nil {
		waited = time.Since(p.since)
	}
	c.metrics.wait.Observe(waited.Seconds())
	return true
}

// freed enqueues a parked key again: at once if the caches have caught up, otherwise a little
// later.
func (c *Controller[K]) freed(ctx context.Context, p *parked[K], err error) {
	if err == nil {
		if on, revision := p.record.behind(c.cfg.Reads); on != nil {
			p.revision = revision
			c.parking.park(ctx, p, on)
			return
		}
	}
	c.metrics.wait.Observe(time.Since(p.since).Seconds())
	opts := workqueue.AddOpts{Priority: p.priority}
	switch {
	case err == nil:
		c.writes.forget(c.object(p.key), p.record)
	case p.record.age() > expectationTimeout:
		// Perhaps etcd's revisions went backwards. Waiting for ever would be worse.
		c.metrics.stale.Inc()
		c.logger.Error("the cache never showed the last write; reconciling anyway", "key", p.key, "err", err)
		c.writes.forget(c.object(p.key), p.record)
	default:
		c.metrics.stale.Inc()
		c.logger.Warn("the cache is too old for a reconcile; retrying later", "key", p.key, "err", err)
		opts.After = staleDelay
	}
	if opts.After == 0 {
		c.stamp(p.key, -p.queued)
	}
	c.EnqueueWith(p.key, opts)
}

func (c *Controller[K]) call(ctx context.Context, key K) (result Result, err error) {
	ctx, record := c.writes.begin(ctx, c.object(key))
	defer c.writes.keep(c.object(key), record)
	if c.cfg.ReconciliationTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.cfg.ReconciliationTimeout, ErrReconciliationTimeout)
		defer cancel()
	}
	defer func() {
		if r := recover(); r != nil {
			c.metrics.panics.Inc()
			c.logger.Error("reconcile panicked", "key", key, "panic", r, "stack", string(debug.Stack()))
			result, err = Result{}, fmt.Errorf("reconciling: panic: %v", r)
		}
		if errors.Is(context.Cause(ctx), ErrReconciliationTimeout) {
			c.metrics.timeouts.Inc()
		}
	}()
	return c.cfg.Reconcile(ctx, key)
}
