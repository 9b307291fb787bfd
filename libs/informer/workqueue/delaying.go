package workqueue

import (
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/garboard/garboard/libs/informer/workqueue/internal/schedule"
)

// TypedDelayingInterface is a queue that can add an item later, so that a failed item is retried
// without a hot loop.
type TypedDelayingInterface[T comparable] interface {
	TypedInterface[T]
	// AddAfter adds item when duration has passed; at once if duration is not positive. Of several
	// delayed adds of one item the earliest counts.
	AddAfter(item T, duration time.Duration)
}

// DelayingInterface is TypedDelayingInterface of any.
//
// Deprecated: use TypedDelayingInterface.
type DelayingInterface TypedDelayingInterface[any]

// TypedDelayingQueueConfig are the options of a delaying queue.
type TypedDelayingQueueConfig[T comparable] struct {
	// Logger exists only for client-go's signature (klog.Logger is another name for its type);
	// nothing is logged.
	Logger *logr.Logger
	// Name is the queue's name in metrics; without a name there are no metrics.
	Name string
	// MetricsProvider creates the metrics; the one passed to SetProvider when nil.
	MetricsProvider MetricsProvider
	// Clock is for tests; the real clock when nil.
	Clock clock.WithTicker
	// Queue receives the items that are due; a Typed queue when nil. If it is set, its metrics,
	// except for the retries, are its own.
	Queue TypedInterface[T]
}

// DelayingQueueConfig is TypedDelayingQueueConfig of any.
//
// Deprecated: use TypedDelayingQueueConfig.
type DelayingQueueConfig = TypedDelayingQueueConfig[any]

// NewDelayingQueue creates a delaying queue.
//
// Deprecated: use NewTypedDelayingQueue.
func NewDelayingQueue() DelayingInterface { return NewTypedDelayingQueue[any]() }

// NewDelayingQueueWithConfig creates a delaying queue.
//
// Deprecated: use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithConfig(config DelayingQueueConfig) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(config)
}

// NewDelayingQueueWithCustomQueue creates a delaying queue in front of q.
//
// Deprecated: use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithCustomQueue(q Interface, name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name, Queue: q})
}

// NewNamedDelayingQueue creates a delaying queue with metrics.
//
// Deprecated: use NewTypedDelayingQueueWithConfig.
func NewNamedDelayingQueue(name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name})
}

// NewDelayingQueueWithCustomClock creates a delaying queue for a test.
//
// Deprecated: use NewTypedDelayingQueueWithConfig.
func NewDelayingQueueWithCustomClock(clock clock.WithTicker, name string) DelayingInterface {
	return NewTypedDelayingQueueWithConfig(DelayingQueueConfig{Name: name, Clock: clock})
}

// NewTypedDelayingQueue creates a delaying queue with default options.
func NewTypedDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelayingQueueWithConfig(TypedDelayingQueueConfig[T]{})
}

// TypedNewDelayingQueue is NewTypedDelayingQueue.
//
// Deprecated: use NewTypedDelayingQueue.
func TypedNewDelayingQueue[T comparable]() TypedDelayingInterface[T] {
	return NewTypedDelayingQueue[T]()
}

// NewTypedDelayingQueueWithConfig creates a delaying queue.
func NewTypedDelayingQueueWithConfig[T comparable](config TypedDelayingQueueConfig[T]) TypedDelayingInterface[T] {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Queue == nil {
		config.Queue = NewTypedWithConfig(TypedQueueConfig[T]{
			Name: config.Name, MetricsProvider: config.MetricsProvider, Clock: config.Clock,
		})
	}
	return newDelaying(config)
}

// newDelaying creates a delaying queue from complete options.
func newDelaying[T comparable](config TypedDelayingQueueConfig[T]) *delaying[T] {
	typed, _ := config.Queue.(*Typed[T])
	return &delaying[T]{
		TypedInterface: config.Queue,
		typed:          typed,
		clock:          config.Clock,
		retries:        newRetries(config.MetricsProvider, config.Name),
		waiting:        schedule.New[T](config.Clock.Now()),
		wake:           make(chan struct{}, 1),
		stop:           make(chan struct{}),
	}
}

// delaying keeps delayed items on a schedule. One goroutine lives while there are any and, so that
// an occasional retry is cheap, up to maxWait longer.
type delaying[T comparable] struct {
	TypedInterface[T]
	// typed is the queue, if it is one of this package; only such a queue can be drained.
	typed *Typed[T]
	// together means that a due item is queued under the lock under which it leaves the schedule,
	// so that it is never in neither. It may be set only if typed is set.
	together bool
	clock    clock.WithTicker
	retries  CounterMetric // nil: none

	mu      sync.Mutex
	waiting *schedule.Schedule[T]
	// due is memory for items on their way from the schedule to the queue. Only the goroutine uses
	// it.
	due []T
	// stopped: nothing is delayed any more. draining: no more items are accepted, but waiting ones
	// are still handed on, at once if hurry is set.
	stopped, draining, hurry bool
	// running means that a goroutine serves the schedule; without one the schedule is empty.
	running bool
	loop    sync.WaitGroup
	// wake notifies the goroutine that the head has changed.
	wake     chan struct{}
	stop     chan struct{}
	stopOnce sync.Once
}

// maxWait is how late an item may be if a timer is lost, and how long the goroutine may live
// without work.
const maxWait = 10 * time.Second

// AddAfter adds item when duration has passed.
func (q *delaying[T]) AddAfter(item T, duration time.Duration) {
	q.addAfter(item, duration, schedule.KeepEarlier)
}

// addAfter is AddAfter with a rule for an item that already waits. It reports whether item was
// added, or has the requested time.
func (q *delaying[T]) addAfter(item T, duration time.Duration, r schedule.Rule) bool {
	if q.ShuttingDown() {
		return false
	}
	if q.retries != nil {
		q.retries.Inc()
	}
	if duration <= 0 {
		if r != schedule.KeepEarlier && !q.overtake(item, r) {
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
	return q.delay(item, duration, r)
}

// delay puts item on the schedule, and reports whether it has the requested time. The caller holds
// the lock.
func (q *delaying[T]) delay(item T, duration time.Duration, r schedule.Rule) bool {
	taken, head := q.waiting.Insert(item, q.clock.Now(), duration, r)
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

// serve adds items as they fall due. It ends when the queue does, or when it has had nothing to do
// for a while.
func (q *delaying[T]) serve() {
	heartbeat := q.clock.NewTicker(maxWait)
	defer heartbeat.Stop()
	var timer clock.Timer
	defer func() {
		if timer != nil {
			timer.Stop()
		}
	}()
	for {
		next, state := q.addDue()
		var fires <-chan time.Time
		switch {
		case state == ended:
			return
		case state == idle:
		case timer == nil:
			timer = q.clock.NewTimer(next)
			fires = timer.C()
		default:
			timer.Reset(next)
			fires = timer.C()
		}
		select {
		case <-fires:
		case <-heartbeat.C():
			if state == idle && q.retire() {
				return
			}
		case <-q.wake:
		case <-q.stop:
		}
		if fires != nil {
			timer.Stop()
		}
	}
}

// retire ends the goroutine's service if nothing waits, and reports whether it did.
func (q *delaying[T]) retire() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.running = q.waiting.Len() > 0
	return !q.running
}

// state is the state of the schedule.
type state int

const (
	// waits: there are items; idle: there are none; ended: there will be no more.
	waits state = iota
	idle
	ended
)

// addDue adds the items that are due, and returns the time until the next one, if any waits.
func (q *delaying[T]) addDue() (time.Duration, state) {
	for {
		// Called without the lock, since the queue may be a caller's own. It may have been shut
		// down without this queue's knowledge.
		down := q.ShuttingDown()
		due, next, state := q.takeDue(down)
		if len(due) == 0 {
			return next, state
		}
		for _, item := range due {
			switch {
			case q.together:
			case q.typed != nil:
				q.typed.deliver(item)
			default:
				q.Add(item)
			}
		}
	}
}

// dueAtOnce is how many items are taken from the schedule at once.
const dueAtOnce = 256

// takeDue takes the due items from the schedule. If there are none it returns the time until the
// next one and the state; if the state is ended, so is the goroutine's service.
func (q *delaying[T]) takeDue(down bool) (due []T, next time.Duration, s state) {
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.due)
	q.due = q.due[:0]
	if down && !q.draining {
		q.waiting.Clear()
	}
	now := q.clock.Now()
	for q.waiting.Len() > 0 && len(q.due) < dueAtOnce {
		if next = q.waiting.Wait(now); next > 0 && !q.hurry {
			break
		}
		q.due = append(q.due, q.waiting.Pop())
	}
	if q.together {
		for _, item := range q.due {
			q.typed.deliver(item)
		}
	}
	switch {
	case len(q.due) > 0 || q.waiting.Len() > 0:
		return q.due, next, waits
	case !down && !q.draining && !q.stopped:
		return nil, 0, idle
	}
	q.running = false
	if q.draining {
		q.typed.expectNothing()
	}
	return nil, 0, ended
}

// ShutDown shuts the queue down; delayed items are dropped.
func (q *delaying[T]) ShutDown() {
	q.end()
	q.TypedInterface.ShutDown()
	q.loop.Wait()
}

// ShutDownWithDrain shuts the queue down with a drain; delayed items are dropped.
func (q *delaying[T]) ShutDownWithDrain() {
	q.end()
	q.TypedInterface.ShutDownWithDrain()
	q.loop.Wait()
}

// end drops the delayed items, and ends the goroutine.
func (q *delaying[T]) end() {
	q.stopOnce.Do(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.draining && q.waiting.Len() > 0 {
			q.typed.abandon()
		}
		q.stopped = true
		q.waiting.Clear()
		close(q.stop)
	})
}
