package workqueue

import (
	"time"

	"k8s.io/utils/clock"
)

// LowPriority is the priority of work that can wait, as it follows from no change: that of the
// initial list after a restart, and of resyncs (controller-runtime,
// pkg/handler.LowPriority). Other work has 0.
const LowPriority = -100

// AddOpts say how items are added to a queue with priorities. The zero value adds at once, with
// the priority 0.
type AddOpts struct {
	// After delays the items; not when it is not positive.
	After time.Duration
	// RateLimited asks the rate limiter for a delay of each item; with After as well the
	// shorter one counts.
	RateLimited bool
	// Priority is the items': what is higher is handed out first.
	Priority int
}

// TypedPriorityInterface is a rate limiting queue whose items have priorities. The highest is
// handed out first, and of one priority the item that came first. An item is in the queue once,
// be it that it waits for a worker or for its time: added again it has the higher of both
// priorities and the earlier of both times. One that rises goes to the end of its new level. It
// has no priority any more when a worker gets it.
//
// Add, AddAfter and AddRateLimited, ReplaceAfter and AddAfterIfAbsent give the priority 0. The
// latter two do nothing with an item that waits for a worker, or that is to be handed out again
// after Done, but raise its priority to 0.
type TypedPriorityInterface[T comparable] interface {
	TypedRateLimitingInterface[T]
	TypedScheduler[T]
	// AddWithOpts adds items.
	AddWithOpts(opts AddOpts, items ...T)
	// GetWithPriority is Get, and says which priority item had.
	GetWithPriority() (item T, priority int, shutdown bool)
}

// TypedPriorityQueueConfig are the options of a queue with priorities.
type TypedPriorityQueueConfig[T comparable] struct {
	// Name is the queue's name in metrics; without one there are none.
	Name string
	// MetricsProvider makes the metrics, the depth of each priority if it is a
	// MetricsProviderWithPriority; that of SetProvider when nil.
	MetricsProvider MetricsProvider
	// Clock is for tests; the real one when nil.
	Clock clock.WithTicker
}

// NewTypedPriorityQueue makes a queue with priorities, after that of controller-runtime
// (pkg/controller/priorityqueue). The rate limiter is 5 ms doubling to 1000 s for each item when
// nil.
//
// It differs from controller-runtime's in what is the work queue's: after ShutDown it hands out
// what is queued, a second ShutDown does nothing, ShutDownWithDrain waits for workers; an item
// that is added while a worker has it does not count in Len, and is queued after Done, at the
// end of its level; so is one that waited for its time and is added at once.
func NewTypedPriorityQueue[T comparable](limiter TypedRateLimiter[T], config TypedPriorityQueueConfig[T]) TypedPriorityInterface[T] {
	if limiter == nil {
		limiter = NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second)
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	order := newLevels[T]()
	typed := NewTypedWithConfig(TypedQueueConfig[T]{Clock: config.Clock, Queue: order})
	typed.metrics = newMetricsByPriority(config.MetricsProvider, config.Name, config.Clock, order)
	delaying := newDelaying(TypedDelayingQueueConfig[T]{
		Name: config.Name, MetricsProvider: config.MetricsProvider, Clock: config.Clock, Queue: typed,
	})
	delaying.together = true
	return &prioritized[T]{delaying: delaying, order: order, limiter: limiter}
}

// prioritized is a delaying queue that keeps the schedule and the queue beneath in step. Of both
// locks, the schedule's is taken first.
type prioritized[T comparable] struct {
	*delaying[T]
	// order is the queue's, under its lock.
	order   *levels[T]
	limiter TypedRateLimiter[T]
}

// AddWithOpts is described at TypedPriorityInterface.
func (q *prioritized[T]) AddWithOpts(opts AddOpts, items ...T) {
	for _, item := range items {
		after := max(opts.After, 0)
		if opts.RateLimited && !q.ShuttingDown() {
			if limited := q.limiter.When(item); after == 0 || limited < after {
				after = limited
			}
		}
		q.add(item, after, opts.Priority, keepEarlier)
	}
}

// add adds item, and says whether it has the time asked for.
func (q *prioritized[T]) add(item T, after time.Duration, priority int, r rule) bool {
	if q.ShuttingDown() {
		return false
	}
	if after > 0 && q.retries != nil {
		q.retries.Inc()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || q.draining || (r == keepOld && q.waiting.has(item)) {
		return false
	}
	if q.claim(item, priority, after <= 0) {
		return r == keepEarlier
	}
	if after > 0 {
		return q.delay(item, after, r)
	}
	if _, head := q.waiting.remove(item); head {
		q.signal()
	}
	return true
}

// claim gives item a priority and, if now, queues it. It says whether item needed work already.
func (q *prioritized[T]) claim(item T, priority int, now bool) (dirtyBefore bool) {
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	if q.typed.shuttingDown {
		return false
	}
	from, to := q.order.ask(item, priority)
	if q.typed.marks[item]&dirty == 0 {
		if now {
			q.typed.add(item)
		}
		return false
	}
	if from != to {
		q.typed.metrics.raised(from, to)
	}
	return true
}

// Add adds item at once, with the priority 0.
func (q *prioritized[T]) Add(item T) { q.add(item, 0, 0, keepEarlier) }

// AddAfter adds item when duration has passed, with the priority 0.
func (q *prioritized[T]) AddAfter(item T, duration time.Duration) {
	q.add(item, duration, 0, keepEarlier)
}

// AddRateLimited adds item after the limiter's delay, with the priority 0.
func (q *prioritized[T]) AddRateLimited(item T) { q.AddWithOpts(AddOpts{RateLimited: true}, item) }

// ReplaceAfter is described at TypedScheduler.
func (q *prioritized[T]) ReplaceAfter(item T, duration time.Duration) bool {
	return q.add(item, duration, 0, keepNew)
}

// AddAfterIfAbsent is described at TypedScheduler.
func (q *prioritized[T]) AddAfterIfAbsent(item T, duration time.Duration) bool {
	return q.add(item, duration, 0, keepOld)
}

// CancelAfter is described at TypedScheduler.
func (q *prioritized[T]) CancelAfter(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waited, head := q.waiting.remove(item)
	if !waited {
		return false
	}
	if head {
		q.signal()
	}
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	q.order.forget(item)
	return true
}

// GetWithPriority is described at TypedPriorityInterface.
func (q *prioritized[T]) GetWithPriority() (item T, priority int, shutdown bool) {
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	if item, shutdown = q.typed.get(); !shutdown {
		priority = q.order.popped
	}
	return item, priority, shutdown
}

// Forget makes the rate limiter forget item's failures.
func (q *prioritized[T]) Forget(item T) { q.limiter.Forget(item) }

// NumRequeues is how often the rate limiter was asked about item since it last forgot it.
func (q *prioritized[T]) NumRequeues(item T) int { return q.limiter.NumRequeues(item) }
