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

// Result says what is to follow a reconcile without an error.
type Result struct {
	// RequeueAfter asks for another reconcile after this time; none when 0.
	RequeueAfter time.Duration
}

// Func brings what key names nearer to what it should be. It must be idempotent, and it must
// return soon after ctx has ended. It is never called for one key twice at a time.
type Func[K comparable] func(ctx context.Context, key K) (Result, error)

// TerminalError marks an error that trying again will not mend, for example a spec that makes
// no sense. The key is not retried.
func TerminalError(err error) error {
	if err == nil {
		return nil
	}
	return &terminalError{err: err}
}

type terminalError struct{ err error }

func (e *terminalError) Error() string { return "terminal error: " + e.err.Error() }

func (e *terminalError) Unwrap() error { return e.err }

// ErrReconciliationTimeout is the cause of the end of a context of a reconcile that took
// longer than Config.ReconciliationTimeout.
var ErrReconciliationTimeout = errors.New("the reconcile took longer than its time")

// Config are the parts of a controller.
type Config[K comparable] struct {
	// Name is the controller's in logs, metrics and traces.
	Name string
	// Workers is how many keys are reconciled at a time; 1 when 0.
	Workers int
	// Reconcile is called for each key.
	Reconcile Func[K]
	// RateLimiter delays keys that failed; workqueue.DefaultTypedControllerRateLimiter when nil.
	RateLimiter workqueue.TypedRateLimiter[K]
	// Priority gives keys priorities: the initial lists of handlers, and resyncs, then wait for
	// what has changed (see ByPriority). A key that fails or comes again after a
	// time keeps its priority. As long as there are more changes than the workers can do, keys
	// of low priority stand still.
	Priority bool
	// MaxRetries is how often in a row a key that fails is tried again; for ever when 0.
	MaxRetries int
	// WaitFor names what must be done before the first key is reconciled: that informers whose
	// caches are read have synced, and registrations whose handlers enqueue. It is asked once,
	// when Run begins, since handlers are made after the controller; nothing when nil.
	WaitFor func() []informer.DoneChecker
	// CacheSyncTimeout is how long Run waits for that before it fails; 2 min when 0, for ever
	// when negative.
	CacheSyncTimeout time.Duration
	// ReconciliationTimeout bounds one call of Reconcile by its context, whose cause is then
	// ErrReconciliationTimeout; none when 0.
	ReconciliationTimeout time.Duration
	// Reads are the caches that must be as new as what was last written for a key, by a client
	// made with Recording, before the key is reconciled again. Nothing is waited for when nil.
	Reads *Caches
	// ReadTimeout bounds one wait for Reads; 5 s when 0. The key waits beside the queue and holds
	// no worker. After that time it is put back and comes again a second later, up to 5 min after
	// the write: then it is reconciled all the same, with an error in the log.
	ReadTimeout time.Duration
	// Logger takes one line per failure; slog.Default when nil.
	Logger *slog.Logger
	// Registerer takes the metrics; none when nil. Controllers may share one.
	Registerer prometheus.Registerer
	// Trace takes hops of queue and reconcile; none when nil.
	Trace *trace.Recorder
	// Resource is what keys name, for hops: "deployments".
	Resource string
}

// New makes a controller. It starts nothing; keys may be enqueued at once.
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

// Controller calls a Func for the keys that it is given.
type Controller[K comparable] struct {
	cfg    Config[K]
	logger *slog.Logger
	queue  workqueue.TypedRateLimitingInterface[K]
	// priorities is the queue, if it has any.
	priorities workqueue.TypedPriorityInterface[K]
	metrics    metrics
	writes     writes[K]
	parking    parking[K]
	started    atomic.Bool

	mu sync.Mutex
	// enqueued is when keys that wait were enqueued; kept only for traces.
	enqueued map[K]time.Time
}

const (
	// syncWarning is how often the log says what is not synced yet.
	syncWarning = 30 * time.Second
	// defaultSyncTimeout is how long that may take (controller-runtime, CacheSyncTimeout).
	defaultSyncTimeout = 2 * time.Minute
	// defaultReadTimeout is how long a key waits for a cache to show what was written.
	defaultReadTimeout = 5 * time.Second
	// staleDelay is when a key comes again whose caches do not show it by then.
	staleDelay = time.Second
)

// Run waits for what Config.WaitFor names, then reconciles until ctx ends. It returns when the
// workers have ended; keys that wait are dropped. It may be called once. It fails if what is
// waited for takes longer than CacheSyncTimeout.
func (c *Controller[K]) Run(ctx context.Context) error {
	if c.started.Swap(true) {
		return fmt.Errorf("running the controller %s: it was started before", c.cfg.Name)
	}
	defer c.queue.ShutDown()
	if err := c.waitForSync(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	c.logger.Debug("controller starts", "workers", c.cfg.Workers)
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
				c.logger.Warn("controller waits for its caches", "unsynced", unsynced(needed))
			}
		}
	}
	return nil
}

var errSync = errors.New("the caches did not sync in time")

// unsynced names what is not done.
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

// process reconciles one key and decides what follows. Done comes after it, so that a key
// which is added again here cannot be with two workers.
func (c *Controller[K]) process(ctx context.Context, key K, priority int) {
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
		return // The controller ends; the error is that of the end.
	case errors.As(err, &terminal):
		outcome = "error"
		c.metrics.errors.Inc()
		c.metrics.terminal.Inc()
		c.logger.Error("reconcile failed for good", "key", key, "err", err)
	case c.cfg.MaxRetries > 0 && c.queue.NumRequeues(key) >= c.cfg.MaxRetries:
		outcome = "error"
		c.metrics.errors.Inc()
		c.logger.Error("reconcile failed too often; the key is dropped", "key", key, "retries", c.cfg.MaxRetries, "err", err)
		c.queue.Forget(key)
	default:
		outcome = "error"
		c.metrics.errors.Inc()
		c.logger.Warn("reconcile failed; it will be tried again", "key", key, "failures", c.queue.NumRequeues(key)+1, "err", err)
		c.EnqueueWith(key, workqueue.AddOpts{RateLimited: true, Priority: priority})
	}
	if err != nil && result.RequeueAfter != 0 {
		c.logger.Warn("reconcile gave a time as well as an error; the time is ignored", "key", key, "after", result.RequeueAfter)
	}
	c.metrics.total.WithLabelValues(c.cfg.Name, outcome).Inc()
	c.hop(key, trace.Reconcile, took, outcome)
}

// fresh reports whether the caches show what was written for key. If they do not, key is put
// aside until they do or ReadTimeout has passed.
func (c *Controller[K]) fresh(ctx context.Context, key K, priority int, queued time.Duration) bool {
	record := c.writes.get(key)
	if record == nil {
		c.parking.take(key)
		return true
	}
	if on, revision := record.behind(c.cfg.Reads); on != nil {
		now := time.Now()
		c.parking.park(ctx, &parked[K]{
			key: key, priority: priority, record: record, queued: queued, revision: revision, since: now, until: now.Add(c.cfg.ReadTimeout),
		}, on)
		return false
	}
	c.writes.forget(key, record)
	var waited time.Duration
	if p := c.parking.take(key); p != nil {
		waited = time.Since(p.since)
	}
	c.metrics.wait.Observe(waited.Seconds())
	return true
}

// freed has a key that was put aside come again: at once if the caches have caught up, else a
// little later.
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
		c.writes.forget(p.key, p.record)
	case p.record.age() > expectationTimeout:
		// Perhaps etcd's revisions went backwards. To stand still for ever would be worse.
		c.metrics.stale.Inc()
		c.logger.Error("the cache never showed what was written; reconciling all the same", "key", p.key, "err", err)
		c.writes.forget(p.key, p.record)
	default:
		c.metrics.stale.Inc()
		c.logger.Warn("the cache is too old for a reconcile; the key comes again", "key", p.key, "err", err)
		opts.After = staleDelay
	}
	if opts.After == 0 {
		c.stamp(p.key, -p.queued)
	}
	c.EnqueueWith(p.key, opts)
}

func (c *Controller[K]) call(ctx context.Context, key K) (result Result, err error) {
	ctx, record := c.writes.begin(ctx)
	defer c.writes.keep(key, record)
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
