package reconcile

import (
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// newQueue creates the queue of a controller. The second result is the same queue if it has
// priorities, otherwise nil.
func newQueue[K comparable](cfg Config[K]) (workqueue.TypedRateLimitingInterface[K], workqueue.TypedPriorityInterface[K]) {
	var provider workqueue.MetricsProvider
	if cfg.Registerer != nil {
		provider = QueueMetrics(cfg.Registerer)
	}
	if cfg.Priority {
		queue := workqueue.NewTypedPriorityQueue(cfg.RateLimiter,
			workqueue.TypedPriorityQueueConfig[K]{Name: cfg.Name, MetricsProvider: provider})
		return queue, queue
	}
	return workqueue.NewTypedRateLimitingQueueWithConfig(cfg.RateLimiter, workqueue.TypedRateLimitingQueueConfig[K]{
		Name: cfg.Name, MetricsProvider: provider,
	}), nil
}

// Enqueue asks for a reconcile of key.
func (c *Controller[K]) Enqueue(key K) { c.EnqueueWith(key, workqueue.AddOpts{}) }

// EnqueueAfter asks for a reconcile of key after a time. An earlier request for the same key
// stands.
func (c *Controller[K]) EnqueueAfter(key K, after time.Duration) {
	c.stamp(key, max(after, 0))
	c.queue.AddAfter(key, after)
}

// EnqueueLow is Enqueue for events without a change, as in the initial list or a resync: with
// Config.Priority, changed keys come first.
func (c *Controller[K]) EnqueueLow(key K) {
	c.EnqueueWith(key, workqueue.AddOpts{Priority: workqueue.LowPriority})
}

// EnqueueWith asks for a reconcile of key with options. The priority counts only with
// Config.Priority.
func (c *Controller[K]) EnqueueWith(key K, opts workqueue.AddOpts) {
	c.stamp(key, max(opts.After, 0))
	switch {
	case c.priorities != nil:
		c.priorities.AddWithOpts(opts, key)
	case opts.RateLimited:
		c.queue.AddRateLimited(key)
	case opts.After > 0:
		c.queue.AddAfter(key, opts.After)
	default:
		c.queue.Add(key)
	}
}

// Len returns how many keys wait for a worker. Keys that wait for a cache do not count.
func (c *Controller[K]) Len() int { return c.queue.Len() }

// get waits for a key.
func (c *Controller[K]) get() (key K, priority int, shutdown bool) {
	if c.priorities != nil {
		return c.priorities.GetWithPriority()
	}
	key, shutdown = c.queue.Get()
	return key, 0, shutdown
}
