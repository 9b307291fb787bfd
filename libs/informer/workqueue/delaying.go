package workqueue

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"
)

// TypedDelayingInterface is a queue that can add an item later, which is how a failed item is
// tried again without a hot loop.
type TypedDelayingInterface[T comparable] interface {
	TypedInterface[T]
	// AddAfter adds item when duration has passed; at once when it is not positive. Of several
	// delayed adds of one item the earliest counts.
	AddAfter(item T, duration time.Duration)
}

// DelayingInterface is TypedDelayingInterface of any.
//
// Deprecated: use TypedDelayingInterface.
type DelayingInterface TypedDelayingInterface[any]

// TypedDelayingQueueConfig are the options of a delaying queue.
type TypedDelayingQueueConfig[T comparable] struct {
	// Logger is accepted for the sake of client-go's signature (klog.Logger is another name for
	// its type); nothing is logged.
	Logger *logr.Logger
	// Name is the queue's name in metrics; without one there are none.
	Name string
	// MetricsProvider makes the metrics; that of SetProvider when nil.
	MetricsProvider MetricsProvider
	// Clock is for tests; the real one when nil.
	Clock clock.WithTicker
	// Queue takes the items whose time has come; a Typed queue when nil. The metrics of a
	// queue that is given, but for the retries, are its own.
	Queue TypedInterface[T]
}

// DelayingQueueConfig is TypedDelayingQueueConfig of any.
//
// Deprecated: use TypedDelayingQueueConfig.
type DelayingQueueConfig = TypedDelayingQueueConfig[any]

// NewDelayingQueue makes a delaying queue.
//
// Deprecated: use NewTypedDelayingQueue.
func NewDelayingQueue() DelayingInterface { return NewTypedDelayingQueue[any]() }

// NewDelayingQueueWithConfig makes a delaying queue.
//
// Deprecated: use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithConfig(config DelayingQueueConfig) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(config)
}

// NewDelayingQueueWithCustomQueue makes a delaying queue before q.
//
// Deprecated: use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithCustomQueue(q Interface, name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name, Queue: q})
}

// NewNamedDelayingQueue makes a delaying queue with metrics.
//
// Deprecated: use NewTypedDelayingQueueWithConfig.
func NewNamedDelayingQueue(name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name})
}

// NewDelayingQueueWithCustomClock makes a delaying queue for a test.
//
// Deprecated: use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithCustomClock(clock clock.WithTicker, name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name, Clock: clock})
}

// NewTypedDelayingQueue makes a delaying queue with default options.
func NewTypedDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelayingQueueWithConfig(TypedDelayingQueueConfig[T]{})
}

// TypedNewDelayingQueue is NewTypedDelayingQueue.
//
// Deprecated: use NewTypedDelayingQueue.
func TypedNewDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelayingQueue[T]()
}

// NewTypedDelayingQueueWithConfig makes a delaying queue.
func NewTypedDelayingQueueWithConfig[T comparable](config TypedDelayingQueueConfig[T]) TypedDelayingInterface[T] {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Queue == nil {
		config.Queue = NewTypedWithConfig(TypedQueueConfig[T]{
			Name: config.Name, MetricsProvider: config.MetricsProvider, Clock: config.Clock,
		})
	}
	typed, _ := config.Queue.(*Typed[T])
	return &delaying[T]{
		TypedInterface: config.Queue,
		typed:          typed,
		clock:          config.Clock,
		retries:        newRetries(config.MetricsProvider, config.Name),
		waiting:        newSchedule[T](config.Clock.Now()),
		wake:           make(chan struct{}, 1),
		stop:           make(chan struct{}),
	}
}

// delaying keeps delayed items on a schedule, with one goroutine that lives only while there
// are some.
type delaying[T comparable] struct {
	TypedInterface[T]
	// typed is the queue, if it is one of this package's: such a queue can be drained.
	typed   *Typed[T]
	clock   clock.WithTicker
	retries CounterMetric // nil: none

	mu      sync.Mutex
	waiting *schedule[T]
	// due are items on their way from the schedule to the queue. Only the goroutine uses it.
	due []T
	// stopped: nothing is delayed any more. draining: nothing more is taken, but what waits is
	// still handed on, with hurry at once.
	stopped, draining, hurry bool
	// running says that a goroutine serves the schedule; without one it is empty.
	running bool
	loop    sync.WaitGroup
	// wake tells the goroutine that the head has changed.
	wake     chan struct{}
	stop     chan struct{}
	stopOnce sync.Once
}

// maxWait is how long an item may be late when a timer is lost.
const maxWait = 10 * time.Second

// AddAfter adds item when duration has passed.
func (q *delaying[T]) AddAfter(item T, duration time.Duration) {
	q.addAfter(item, duration, keepEarlier)
}

// addAfter is AddAfter with a rule for an item that waits already. It says whether item was
// added, or has the time asked for.
func (q *delaying[T]) addAfter(item T, duration time.Duration, r rule) bool {
	if q.ShuttingDown() {
		return false
	}
	if q.retries != nil {
		q.retries.Inc()
	}
	if duration <= 0 {
		if r != keepEarlier && !q.overtake(item, r) {
			return false
		}
		q.Add(item)
		return true
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || q.draining {
		return false
	}
	taken, head := q.waiting.insert(item, q.clock.Now(), duration, r)
	switch {
	case !head:
	case q.running:
		q.signal()
	default:
		q.running = true
		q.loop.Go(q.serve)
	}
	return taken
}

// signal wakes the goroutine.
func (q *delaying[T]) signal() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// serve adds items as they fall due, until none waits.
func (q *delaying[T]) serve() {
	heartbeat := q.clock.NewTicker(maxWait)
	defer heartbeat.Stop()
	for {
		next, more := q.addDue()
		if !more {
			return
		}
		timer := q.clock.NewTimer(next)
		select {
		case <-timer.C():
		case <-heartbeat.C():
		case <-q.wake:
		case <-q.stop:
		}
		timer.Stop()
	}
}

// addDue adds the items that are due, and gives the time until the next one.
func (q *delaying[T]) addDue() (next time.Duration, more bool) {
	for {
		// Asked without the lock, as it may be anybody's queue: it may have been shut down
		// without our knowledge.
		down := q.ShuttingDown()
		next, more = q.takeDue(down)
		if len(q.due) == 0 {
			return next, more
		}
		for _, item := range q.due {
			if q.typed != nil {
				q.typed.deliver(item)
			} else {
				q.Add(item)
			}
		}
	}
}

// takeDue moves items that are due from the schedule to q.due. If there are none it gives the
// time until the next one, or ends the goroutine's service.
func (q *delaying[T]) takeDue(down bool) (next time.Duration, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.due)
	if cap(q.due) > scheduleKept {
		q.due = nil
	}
	q.due = q.due[:0]
	if down && !q.draining {
		q.waiting.clear()
	}
	now := q.clock.Now()
	for q.waiting.len() > 0 {
		if next = q.waiting.wait(now); next > 0 && !q.hurry {
			break
		}
		q.due = append(q.due, q.waiting.pop())
	}
	if len(q.due) > 0 || q.waiting.len() > 0 {
		return next, true
	}
	q.running = false
	if q.draining {
		q.typed.expectNothing()
	}
	return 0, false
}

// ShutDown is the queue's; items whose time has not come are dropped.
func (q *delaying[T]) ShutDown() {
	q.end()
	q.TypedInterface.ShutDown()
	q.loop.Wait()
}

// ShutDownWithDrain is the queue's; items whose time has not come are dropped.
func (q *delaying[T]) ShutDownWithDrain() {
	q.end()
	q.TypedInterface.ShutDownWithDrain()
	q.loop.Wait()
}

// end drops what waits, and ends the goroutine.
func (q *delaying[T]) end() {
	q.stopOnce.Do(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.draining && q.waiting.len() > 0 {
			q.typed.abandon()
		}
		q.stopped = true
		q.waiting.clear()
		close(q.stop)
	})
}
