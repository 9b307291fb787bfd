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
	// Logger is accepted for the sake of client-go's signature; nothing is logged.
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
	return &delaying[T]{
		TypedInterface: config.Queue,
		clock:          config.Clock,
		retries:        newRetries(config.MetricsProvider, config.Name),
		waiting:        newSchedule[T](),
		wake:           make(chan struct{}, 1),
		stop:           make(chan struct{}),
	}
}

// delaying keeps delayed items on a schedule, with one goroutine that lives only while there
// are some.
type delaying[T comparable] struct {
	TypedInterface[T]
	clock   clock.WithTicker
	retries CounterMetric // nil: none

	mu      sync.Mutex
	waiting *schedule[T]
	stopped bool
	// running says that a goroutine waits for the head of the schedule.
	running bool
	loop    sync.WaitGroup
	// wake tells the goroutine that the head has changed.
	wake     chan struct{}
	stop     chan struct{}
	stopOnce sync.Once
}

// maxWait bounds one sleep, so that a jump of the clock delays nothing for longer.
const maxWait = 10 * time.Second

// AddAfter adds item when duration has passed.
func (q *delaying[T]) AddAfter(item T, duration time.Duration) {
	if q.ShuttingDown() {
		return
	}
	if q.retries != nil {
		q.retries.Inc()
	}
	if duration <= 0 {
		q.Add(item)
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || !q.waiting.insert(item, q.clock.Now().Add(duration)) {
		return
	}
	if !q.running {
		q.running = true
		q.loop.Go(q.wait)
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// wait adds items as they fall due, until none waits.
func (q *delaying[T]) wait() {
	for {
		next, more := q.addDue()
		if !more {
			return
		}
		timer := q.clock.NewTimer(min(next, maxWait))
		select {
		case <-timer.C():
		case <-q.wake:
			timer.Stop()
		case <-q.stop:
			timer.Stop()
			return
		}
	}
}

// addDue adds the items that are due, and gives the time until the next one.
func (q *delaying[T]) addDue() (next time.Duration, more bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	for !q.stopped && q.waiting.len() > 0 {
		if next := q.waiting.head().Sub(now); next > 0 {
			return next, true
		}
		q.Add(q.waiting.pop())
	}
	q.running = false
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

func (q *delaying[T]) end() {
	q.stopOnce.Do(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.stopped = true
		q.waiting = newSchedule[T]()
		close(q.stop)
	})
}
