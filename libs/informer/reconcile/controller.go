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
	// MaxRetries is how often in a row a key that fails is tried again; for ever when 0.
	MaxRetries int
	// Synced must all be true before the first key is reconciled: those of informers whose
	// caches are read, and of registrations whose handlers enqueue.
	Synced []func() bool
	// Unsynced names what is not synced yet, for the log and for the error of
	// CacheSyncTimeout; places in Synced are given when nil.
	Unsynced func() []string
	// CacheSyncTimeout is how long Run waits for Synced before it fails; 2 min when 0, for
	// ever when negative.
	CacheSyncTimeout time.Duration
	// ReconciliationTimeout bounds one call of Reconcile by its context, whose cause is then
	// ErrReconciliationTimeout; none when 0.
	ReconciliationTimeout time.Duration
	// Reads are the caches that must be as new as what was last written for a key, by a client
	// made with Recording, before the key is reconciled again. Nothing is waited for when nil.
	Reads *Caches
	// ReadTimeout bounds the wait for Reads, which keeps a worker busy; 5 s when 0. After it
	// the key is put back and comes again a second later, up to 5 min after the write: then it
	// is reconciled all the same, with an error in the log.
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
	queueConfig := workqueue.TypedRateLimitingQueueConfig[K]{Name: cfg.Name}
	if cfg.Registerer != nil {
		queueConfig.MetricsProvider = QueueMetrics(cfg.Registerer)
	}
	return &Controller[K]{
		cfg:      cfg,
		logger:   cfg.Logger.With("controller", cfg.Name),
		queue:    workqueue.NewTypedRateLimitingQueueWithConfig(cfg.RateLimiter, queueConfig),
		metrics:  newMetrics(cfg.Registerer, cfg.Name, cfg.Workers),
		writes:   writes[K]{caches: cfg.Reads},
		enqueued: map[K]time.Time{},
	}
}

// Controller calls a Func for the keys that it is given.
type Controller[K comparable] struct {
	cfg     Config[K]
	logger  *slog.Logger
	queue   workqueue.TypedRateLimitingInterface[K]
	metrics metrics
	writes  writes[K]
	started atomic.Bool

	mu sync.Mutex
	// enqueued is when keys that wait were enqueued; kept only for traces.
	enqueued map[K]time.Time
}

// Enqueue asks for a reconcile of key.
func (c *Controller[K]) Enqueue(key K) {
	c.stamp(key, 0)
	c.queue.Add(key)
}

// EnqueueAfter asks for a reconcile of key after a time. An earlier one asked for stands.
func (c *Controller[K]) EnqueueAfter(key K, after time.Duration) {
	c.stamp(key, after)
	c.queue.AddAfter(key, after)
}

// Len is how many keys wait for a worker.
func (c *Controller[K]) Len() int { return c.queue.Len() }

const (
	// syncPeriod is how often the Synced functions are asked.
	syncPeriod = 10 * time.Millisecond
	// syncWarning is how often the log says that they still are not all true.
	syncWarning = 30 * time.Second
	// defaultSyncTimeout is how long they may take (controller-runtime, CacheSyncTimeout).
	defaultSyncTimeout = 2 * time.Minute
	// defaultReadTimeout is how long a worker waits for a cache to show what was written.
	defaultReadTimeout = 5 * time.Second
	// staleDelay is when a key comes again whose caches do not show it by then.
	staleDelay = time.Second
)

// Run waits for everything in Synced, then reconciles until ctx ends. It returns when the
// workers have ended; keys that wait are dropped. It may be called once. It fails if Synced
// takes longer than CacheSyncTimeout.
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
	return nil
}

// waitForSync returns when everything has synced or ctx has ended.
func (c *Controller[K]) waitForSync(ctx context.Context) error {
	if c.cfg.CacheSyncTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.cfg.CacheSyncTimeout, errSync)
		defer cancel()
	}
	ticker := time.NewTicker(syncPeriod)
	defer ticker.Stop()
	warn := time.NewTicker(syncWarning)
	defer warn.Stop()
	for _, synced := range c.cfg.Synced {
		for !synced() {
			select {
			case <-ctx.Done():
				if errors.Is(context.Cause(ctx), errSync) {
					return fmt.Errorf("starting the controller %s: %s did not sync within %v",
						c.cfg.Name, c.unsynced(), c.cfg.CacheSyncTimeout)
				}
				return nil
			case <-ticker.C:
			case <-warn.C:
				c.logger.Warn("controller waits for its caches", "unsynced", c.unsynced())
			}
		}
	}
	return nil
}

var errSync = errors.New("the caches did not sync in time")

// unsynced names what is not synced.
func (c *Controller[K]) unsynced() string {
	var names []string
	if c.cfg.Unsynced != nil {
		names = c.cfg.Unsynced()
	} else {
		for i, synced := range c.cfg.Synced {
			if !synced() {
				names = append(names, fmt.Sprintf("number %d of %d", i+1, len(c.cfg.Synced)))
			}
		}
	}
	return strings.Join(names, ", ")
}

func (c *Controller[K]) work(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		if ctx.Err() == nil {
			c.process(ctx, key)
		}
		c.queue.Done(key)
	}
}

// process reconciles one key and decides what follows. Done comes after it, so that a key
// which is added again here cannot be with two workers.
func (c *Controller[K]) process(ctx context.Context, key K) {
	waited := c.waited(key)
	if !c.fresh(ctx, key) {
		return
	}
	c.hop(key, trace.Queue, waited, "")
	c.metrics.active.Inc()
	start := time.Now()
	result, err := c.call(ctx, key)
	took := time.Since(start)
	c.metrics.active.Dec()
	c.metrics.time.Observe(took.Seconds())

	outcome := "success"
	var terminal *terminalError
	switch {
	case err == nil && result.RequeueAfter > 0:
		outcome = "requeue_after"
		c.queue.Forget(key)
		c.EnqueueAfter(key, result.RequeueAfter)
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
		c.stamp(key, 0)
		c.queue.AddRateLimited(key)
	}
	if err != nil && result.RequeueAfter != 0 {
		c.logger.Warn("reconcile gave a time as well as an error; the time is ignored", "key", key, "after", result.RequeueAfter)
	}
	c.metrics.total.WithLabelValues(c.cfg.Name, outcome).Inc()
	c.hop(key, trace.Reconcile, took, outcome)
}

// fresh waits until the caches show what was written for key. If they do not, key comes again
// later.
func (c *Controller[K]) fresh(ctx context.Context, key K) bool {
	start := time.Now()
	record, err := c.writes.wait(ctx, key, c.cfg.ReadTimeout)
	if record != nil {
		c.metrics.wait.Observe(time.Since(start).Seconds())
	}
	switch {
	case err == nil:
		return true
	case ctx.Err() != nil:
		return false
	}
	c.metrics.stale.Inc()
	if record.age() > expectationTimeout {
		// Perhaps etcd's revisions went backwards. To stand still for ever would be worse.
		c.logger.Error("the cache never showed what was written; reconciling all the same", "key", key, "err", err)
		c.writes.forget(key)
		return true
	}
	c.logger.Warn("the cache is too old for a reconcile; the key comes again", "key", key, "err", err)
	c.EnqueueAfter(key, staleDelay)
	return false
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

// stamp notes when key was enqueued, unless it waits already.
func (c *Controller[K]) stamp(key K, after time.Duration) {
	if c.cfg.Trace == nil {
		return
	}
	at := time.Now().Add(max(after, 0))
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, waits := c.enqueued[key]; !waits || at.Before(old) {
		c.enqueued[key] = at
	}
}

// waited is how long key waited beyond the time for which it was asked.
func (c *Controller[K]) waited(key K) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, known := c.enqueued[key]
	delete(c.enqueued, key)
	if !known {
		return 0
	}
	return max(time.Since(at), 0)
}

func (c *Controller[K]) hop(key K, step string, took time.Duration, detail string) {
	if c.cfg.Trace == nil {
		return
	}
	hop := trace.Hop{Took: took, Service: c.cfg.Name, Step: step, Resource: c.cfg.Resource, Name: fmt.Sprint(key), Detail: detail}
	if s, ok := any(key).(string); ok {
		if namespace, name, err := SplitKey(s); err == nil {
			hop.Namespace, hop.Name = namespace, name
		}
	}
	c.cfg.Trace.Record(hop)
}
