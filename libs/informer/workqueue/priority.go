package workqueue

import (
	"time"

	"k8s.io/utils/clock"

	"github.com/garboard/garboard/libs/informer/workqueue/internal/levels"
	"github.com/garboard/garboard/libs/informer/workqueue/internal/schedule"
)

// LowPriority is the priority of work without a change behind it, which can wait: the initial list
// after a restart, and resyncs (controller-runtime, pkg/handler.LowPriority). Other work has
// priority 0.
const LowPriority = -100

// AddOpts are the options for adding items to a queue with priorities. The zero value adds at once,
// with priority 0.
type AddOpts struct {
	// After delays the items, if it is positive.
	After time.Duration
	// RateLimited asks the rate limiter for a delay of each item; if After is set too, the shorter
	// one counts.
	RateLimited bool
	// Priority is the priority of the items; higher priorities are handed out first.
	Priority int
}

// TypedPriorityInterface is a rate limiting queue whose items have priorities. The highest priority
// is handed out first and, within one priority, the item that came first. An item is in the queue
// once, whether it waits for a worker or for its time. If it is added again, it gets the higher of
// both priorities and the earlier of both times. An item that rises goes to the end of its new
// level. It loses its priority when a worker gets it.
//
// Add, AddAfter and AddRateLimited, ReplaceAfter and AddAfterIfAbsent use priority 0. For an item
// that waits for a worker, or that is to be handed out again after Done, the latter two only raise
// its priority to 0.
type TypedPriorityInterface[T comparable] interface {
	TypedRateLimitingInterface[T]
	TypedScheduler[T]
	// AddWithOpts adds items.
	AddWithOpts(opts AddOpts, items ...T)
	// GetWithPriority is Get, and also returns the priority that item had.
	GetWithPriority() (item T, priority int, shutdown bool)
}

// TypedPriorityQueueConfig are the options of a queue with priorities.
type TypedPriorityQueueConfig[T comparable] struct {
	// Name is the queue's name in metrics; without a name there are no metrics.
	Name string
	// MetricsProvider creates the metrics, with the depth by priority if it is a
	// MetricsProviderWithPriority; the one passed to SetProvider when nil.
	MetricsProvider MetricsProvider
	// Clock is for tests; the real clock when nil.
	Clock clock.WithTicker
}

// NewTypedPriorityQueue creates a queue with priorities, modelled on controller-runtime's
// (pkg/controller/priorityqueue). A nil rate limiter means 5 ms doubling to 1000 s for each item.
//
// It differs from controller-runtime's queue where it follows the work queue. After ShutDown it
// hands out the queued items; a second ShutDown does nothing; ShutDownWithDrain waits for workers.
// An item added while a worker has it does not count in Len, and is queued after Done, at the end
// of its level. An item that waited for its time and is added at once also goes to the end of its
// level.
func NewTypedPriorityQueue[T comparable](limiter TypedRateLimiter[T], config TypedPriorityQueueConfig[T]) TypedPriorityInterface[T] {
	if limiter == nil {
		limiter = NewTypedItemExponentialFailureRateLimiter[T](5*time.Millisecond, 1000*time.Second)
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	order := levels.New[T]()
	typed := NewTypedWithConfig(TypedQueueConfig[T]{Clock: config.Clock, Queue: order})
	typed.metrics = newMetricsByPriority(config.MetricsProvider, config.Name, config.Clock, order)
	delaying := newDelaying(TypedDelayingQueueConfig[T]{
		Name: config.Name, MetricsProvider: config.MetricsProvider, Clock: config.Clock, Queue: typed,
	})
	delaying.together = true
	return &prioritized[T]{delaying: delaying, order: order, limiter: limiter}
}

// prioritized is a delaying queue that keeps the schedule and the underlying queue in step. Of the
// two locks, the schedule's is taken first.
type prioritized[T comparable] struct {
	*delaying[T]
	// order is the order of the queue, under the queue's lock.
	order   *levels.Levels[T]
	limiter TypedRateLimiter[T]
}

// AddWithOpts is documented at TypedPriorityInterface.
func (q *prioritized[T]) AddWithOpts(opts AddOpts, items ...T) {
	for _, item := range items {
		after := max(opts.After, 0)
		if opts.RateLimited && !q.ShuttingDown() {
			if limited := q.limiter.When(item); after == 0 || limited < after {
				after = limited
			}
		}
		q.add(item, after, opts.Priority, schedule.KeepEarlier)
	}
}

// add adds item, and reports whether it has the requested time.
func (q *prioritized[T]) add(item T, after time.Duration, priority int, r schedule.Rule) bool {
	if q.ShuttingDown() {
		return false
	}
	if after > 0 && q.retries != nil {
		q.retries.Inc()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || q.draining || (r == schedule.KeepOld && q.waiting.Has(item)) {
		return false
	}
	if q.claim(item, priority, after <= 0) {
		return r == schedule.KeepEarlier
	}
	if after > 0 {
		return q.delay(item, after, r)
	}
	if _, head := q.waiting.Remove(item); head {
		q.signal()
	}
	return true
}

// claim sets the priority of item and, if now is set, queues it. It reports whether item already
// needed work.
func (q *prioritized[T]) claim(item T, priority int, now bool) (dirtyBefore bool) {
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	if q.typed.shuttingDown {
		return false
	}
	from, to := q.order.Ask(item, priority)
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

// Add adds item at once, with priority 0.
func (q *prioritized[T]) Add(item T) { q.add(item, 0, 0, schedule.KeepEarlier) }

// AddAfter adds item when duration has passed, with priority 0.
func (q *prioritized[T]) AddAfter(item T, duration time.Duration) {
	q.add(item, duration, 0, schedule.KeepEarlier)
}

// AddRateLimited adds item after the limiter's delay, with priority 0.
func (q *prioritized[T]) AddRateLimited(item T) { q.AddWithOpts(AddOpts{RateLimited: true}, item) }

// ReplaceAfter is documented at TypedScheduler.
func (q *prioritized[T]) ReplaceAfter(item T, duration time.Duration) bool {
	return q.add(item, duration, 0, schedule.KeepNew)
}

// AddAfterIfAbsent is documented at TypedScheduler.
func (q *prioritized[T]) AddAfterIfAbsent(item T, duration time.Duration) bool {
	return q.add(item, duration, 0, schedule.KeepOld)
}

// CancelAfter is documented at TypedScheduler.
func (q *prioritized[T]) CancelAfter(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waited, head := q.waiting.Remove(item)
	if !waited {
		return false
	}
	if head {
		q.signal()
	}
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	q.order.Forget(item)
	return true
}

// GetWithPriority is documented at TypedPriorityInterface.
func (q *prioritized[T]) GetWithPriority() (item T, priority int, shutdown bool) {
	q.typed.mu.Lock()
	defer q.typed.mu.Unlock()
	if item, shutdown = q.typed.get(); !shutdown {
		priority = q.order.Popped()
	}
	return item, priority, shutdown
}

// Forget makes the rate limiter forget item's failures.
func (q *prioritized[T]) Forget(item T) { q.limiter.Forget(item) }

// NumRequeues returns how often the rate limiter was asked about item since it last forgot it.
func (q *prioritized[T]) NumRequeues(item T) int { return q.limiter.NumRequeues(item) }
