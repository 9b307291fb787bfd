package workqueue

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/garboard/garboard/libs/informer/internal/ring"
)

// TypedInterface is a queue of keys.
type TypedInterface[T comparable] interface {
	// Add marks item as needing work. It does nothing after a shutdown has begun.
	Add(item T)
	// Len returns the number of items that wait for a worker. It is for information only.
	Len() int
	// Get waits for an item. If shutdown is true, there is no item and never will be.
	Get() (item T, shutdown bool)
	// Done reports that the worker that got item has finished with it.
	Done(item T)
	// ShutDown refuses further items and ends Get once the queued ones are handed out.
	ShutDown()
	// ShutDownWithDrain is ShutDown, and waits until no worker holds an item. A later ShutDown ends
	// the wait.
	ShutDownWithDrain()
	// ShuttingDown reports whether a shutdown has begun.
	ShuttingDown() bool
}

// Interface is TypedInterface of any.
//
// Deprecated: use TypedInterface.
type Interface TypedInterface[any]

// Queue orders the waiting items. It is called only under the lock of the work queue.
type Queue[T comparable] interface {
	// Touch reports that a waiting item was added again.
	Touch(item T)
	// Push adds an item that does not wait yet.
	Push(item T)
	// Len returns the number of items.
	Len() int
	// Pop removes and returns the next item; it is called only if there is one.
	Pop() (item T)
}

// DefaultQueue is a first-in-first-out queue.
func DefaultQueue[T comparable]() Queue[T] { return &fifo[T]{} }

type fifo[T comparable] struct{ ring.Ring[T] }

// Touch does nothing: an item keeps its place.
func (*fifo[T]) Touch(T) {}

// Push adds item at the end.
func (q *fifo[T]) Push(item T) { q.Ring.Push(item) }

// TypedQueueConfig are the options of a queue; the zero value is a queue without a name.
type TypedQueueConfig[T comparable] struct {
	// Name is the queue's name in metrics; without a name there are no metrics.
	Name string
	// MetricsProvider creates the metrics; the one passed to SetProvider when nil.
	MetricsProvider MetricsProvider
	// Clock is for tests; the real clock when nil.
	Clock clock.WithTicker
	// Queue orders the items; first in, first out when nil.
	Queue Queue[T]
}

// QueueConfig is TypedQueueConfig of any.
//
// Deprecated: use TypedQueueConfig.
type QueueConfig = TypedQueueConfig[any]

// Type is Typed of any.
//
// Deprecated: use Typed.
type Type = Typed[any]

// New creates a queue.
//
// Deprecated: use NewTyped.
func New() *Type { return NewTyped[any]() }

// NewNamed creates a queue with metrics.
//
// Deprecated: use NewTypedWithConfig.
func NewNamed(name string) *Type { return NewTypedWithConfig(QueueConfig{Name: name}) }

// NewWithConfig creates a queue.
//
// Deprecated: use NewTypedWithConfig.
func NewWithConfig(config QueueConfig) *Type { return NewTypedWithConfig(config) }

// NewTyped creates a queue with default options.
func NewTyped[T comparable]() *Typed[T] { return NewTypedWithConfig(TypedQueueConfig[T]{}) }

// NewTypedWithConfig creates a queue.
func NewTypedWithConfig[T comparable](config TypedQueueConfig[T]) *Typed[T] {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	if config.Queue == nil {
		config.Queue = DefaultQueue[T]()
	}
	q := &Typed[T]{
		queue:   config.Queue,
		marks:   map[T]mark{},
		metrics: newMetrics[T](config.MetricsProvider, config.Name, config.Clock),
		clock:   config.Clock,
		made:    config.Clock.Now(),
		stop:    make(chan struct{}),
	}
	q.work.L, q.idle.L = &q.mu, &q.mu
	return q
}

// mark is the state of an item.
type mark uint8

const (
	// dirty: the item needs work.
	dirty mark = 1 << iota
	// processing: a worker has the item.
	processing
)

// Typed is a work queue.
type Typed[T comparable] struct {
	mu sync.Mutex
	// work wakes the callers of Get, idle those that drain.
	work, idle sync.Cond

	// queue holds exactly the items that are dirty and not processing.
	queue Queue[T]
	// marks holds every item that has a mark, and no other.
	marks map[T]mark
	// held is the number of items that are processing.
	held int

	shuttingDown bool
	// drain means that ShutDownWithDrain must continue to wait.
	drain bool
	// expecting means that delayed items still arrive, although a shutdown has begun.
	expecting bool
	// failed is compared by each Drain with its value when that Drain began.
	failed drainFailures

	metrics *metrics[T] // nil: none
	clock   clock.WithTicker
	made    time.Time
	// sampling means that the goroutine that samples the metrics of held items was started.
	sampling bool
	sampler  sync.WaitGroup
	stop     chan struct{}
	stopOnce sync.Once
}

// Add marks item as needing work: once, however often it is added before a worker gets it.
func (q *Typed[T]) Add(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.shuttingDown {
		return
	}
	q.add(item)
}

// add is Add without the check for a shutdown; the caller holds the lock.
func (q *Typed[T]) add(item T) {
	m := q.marks[item]
	switch {
	case m == dirty:
		q.queue.Touch(item)
	case m&dirty != 0:
		// Done will queue it.
	case m == processing:
		q.metrics.add(item)
		q.marks[item] = dirty | processing
	default:
		q.metrics.add(item)
		q.marks[item] = dirty
		q.queue.Push(item)
		q.work.Signal()
	}
}

// Len returns the number of items that wait for a worker.
func (q *Typed[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.queue.Len()
}

// Get waits for an item, which then belongs to the caller until Done. If shutdown is true, there is
// no item and never will be.
func (q *Typed[T]) Get() (item T, shutdown bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.get()
}

// get is Get; the caller holds the lock.
func (q *Typed[T]) get() (item T, shutdown bool) {
	for q.queue.Len() == 0 {
		if q.shuttingDown && !q.expecting {
			return item, true
		}
		q.work.Wait()
	}
	item = q.queue.Pop()
	q.marks[item] = processing
	q.held++
	if q.metrics != nil {
		q.metrics.get(item)
		q.sample()
	}
	return item, false
}

// Done returns item to the queue. If it was added in the meantime, it is queued again.
func (q *Typed[T]) Done(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m := q.marks[item]
	if m&processing == 0 {
		return
	}
	q.metrics.done(item)
	q.held--
	if m&dirty != 0 {
		q.marks[item] = dirty
		q.queue.Push(item)
		q.work.Signal()
	} else {
		delete(q.marks, item)
	}
	if q.held == 0 {
		q.idle.Broadcast()
	}
}

// ShutDown makes Add do nothing, and ends Get once the queued items are handed out.
func (q *Typed[T]) ShutDown() {
	q.shutDown(false)
	q.sampler.Wait()
}

// ShutDownWithDrain is ShutDown, and waits until no worker holds an item. It does not wait for
// items in the queue, but a worker that keeps calling Get keeps the drain going.
func (q *Typed[T]) ShutDownWithDrain() {
	q.shutDown(true)
	q.mu.Lock()
	for q.held != 0 && q.drain {
		q.idle.Wait()
	}
	q.mu.Unlock()
	q.sampler.Wait()
}

func (q *Typed[T]) shutDown(drain bool) {
	q.mu.Lock()
	q.drain = drain
	q.shuttingDown = true
	if q.expecting {
		q.expecting = false
		q.failed.dropped++
	}
	if !drain {
		q.failed.shutdowns++
	}
	q.work.Broadcast()
	q.idle.Broadcast()
	q.mu.Unlock()
	q.stopOnce.Do(func() { close(q.stop) })
}

// ShuttingDown reports whether a shutdown has begun.
func (q *Typed[T]) ShuttingDown() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.shuttingDown
}

// samplePeriod is how often the metrics of held items are updated.
const samplePeriod = 500 * time.Millisecond

// sample starts the sampling of held items' ages, once. The caller holds the lock. Sampling starts
// with the first item got, since before that there is nothing to sample; its instants are those of
// a ticker that runs since the queue was created.
func (q *Typed[T]) sample() {
	if q.sampling || q.shuttingDown {
		return
	}
	q.sampling = true
	timer := q.clock.NewTimer(q.untilSample())
	q.sampler.Go(func() {
		defer timer.Stop()
		for {
			select {
			case <-q.stop:
				return
			case <-timer.C():
				q.mu.Lock()
				if !q.shuttingDown {
					q.metrics.sample()
				}
				q.mu.Unlock()
				timer.Reset(q.untilSample())
			}
		}
	})
}

// untilSample returns the time until the next sample.
func (q *Typed[T]) untilSample() time.Duration {
	return samplePeriod - q.clock.Since(q.made)%samplePeriod
}
