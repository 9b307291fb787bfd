package workqueue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue/internal/schedule"
)

// ErrShutDown is the cause of an error of Drain if ShutDown ended the wait.
var ErrShutDown = errors.New("the queue was shut down")

// Drain refuses further items and waits until workers have got all queued items and have finished
// with them; an item added while a worker had it counts as queued. If ctx ends first, Drain shuts
// the queue down as ShutDown does. Its error says how many items were left, which workers can still
// get; the cause is that of ctx, or ErrShutDown if ShutDown ended the wait. Unlike
// ShutDownWithDrain it waits for queued items. Client-go has no such method.
func (q *Typed[T]) Drain(ctx context.Context) error {
	return q.awaitDrained(ctx, q.refuse(false))
}

// drainFailures counts what makes drains fail.
type drainFailures struct {
	// shutdowns counts the shutdowns that end waits, dropped how often expected items were dropped.
	shutdowns, dropped int
}

// refuse begins a shutdown. If expecting is set, items still arrive by deliver, until
// expectNothing. It returns a ticket for awaitDrained.
func (q *Typed[T]) refuse(expecting bool) (ticket drainFailures) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.shuttingDown = true
	q.drain = true
	q.expecting = q.expecting || expecting
	q.work.Broadcast()
	return q.failed
}

// deliver is Add, but also works during a shutdown in which items are expected.
func (q *Typed[T]) deliver(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.shuttingDown || q.expecting {
		q.add(item)
	}
}

// expectNothing announces that no more items arrive by deliver.
func (q *Typed[T]) expectNothing() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.expecting = false
	q.work.Broadcast()
	q.idle.Broadcast()
}

// abandon fails the drains, because expected items were dropped.
func (q *Typed[T]) abandon() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.failed.dropped++
	q.idle.Broadcast()
}

// awaitDrained waits until nothing is queued, held or expected.
func (q *Typed[T]) awaitDrained(ctx context.Context, ticket drainFailures) error {
	woken := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(woken)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.idle.Broadcast()
	})
	defer func() {
		if !stop() {
			<-woken
		}
		q.stopOnce.Do(func() { close(q.stop) })
		q.sampler.Wait()
	}()

	q.mu.Lock()
	defer q.mu.Unlock()
	for q.held > 0 || q.queue.Len() > 0 || q.expecting {
		var cause error
		switch {
		case q.failed != ticket:
			cause = ErrShutDown
		case ctx.Err() != nil:
			cause = context.Cause(ctx)
			q.drain, q.expecting = false, false
			q.failed.shutdowns++
			q.work.Broadcast()
			q.idle.Broadcast()
		default:
			q.idle.Wait()
			continue
		}
		return fmt.Errorf("draining the work queue, with %d items queued and %d with workers: %w", q.queue.Len(), q.held, cause)
	}
	if q.failed.dropped != ticket.dropped {
		return fmt.Errorf("draining the work queue, with delayed items left: %w", ErrShutDown)
	}
	return nil
}

// DelayedItems is what a drain does with delayed items.
type DelayedItems int

const (
	// WaitForDelayed hands delayed items out at their times, and waits for that.
	WaitForDelayed DelayedItems = iota
	// HandOutDelayed hands delayed items out at once, in the order in which they are due.
	HandOutDelayed
	// DropDelayed drops delayed items, as ShutDown does.
	DropDelayed
)

// TypedScheduler is what the delaying and the rate limiting queues of this package offer beyond
// client-go's. A type assertion on the results of the constructors returns it:
//
//	q := workqueue.NewTypedRateLimitingQueue(limiter)
//	q.(workqueue.TypedScheduler[string]).CancelAfter("a")
//
// A rate limiting queue has it unless it was created with a delaying queue of another package.
type TypedScheduler[T comparable] interface {
	// ReplaceAfter is AddAfter, but an item that already waits is then due when duration has
	// passed, whether that is earlier or later. If duration is not positive, item is added at once
	// and does not come a second time. It reports whether that was done; after a shutdown has
	// begun, it is not.
	ReplaceAfter(item T, duration time.Duration) bool
	// AddAfterIfAbsent is AddAfter, but does nothing if item already waits for its time. It reports
	// whether item was added.
	AddAfterIfAbsent(item T, duration time.Duration) bool
	// CancelAfter cancels the delayed add of item. It reports whether there was one. An item whose
	// time has come is queued, and stays queued.
	CancelAfter(item T) bool
	// Delayed returns the number of items that wait for their time. It is for information only.
	Delayed() int
	// Drain refuses further items, including delayed ones, and waits until workers have got and
	// finished all queued and held items and, depending on delayed, all delayed ones. If ctx ends
	// first, the queue is shut down, which drops the delayed items. The error says how many of each
	// were left; its cause is that of ctx, or ErrShutDown if a shutdown ended the wait. Drain fails
	// without doing anything if the underlying queue is not a *Typed.
	Drain(ctx context.Context, delayed DelayedItems) error
}

// ReplaceAfter is documented at TypedScheduler.
func (q *delaying[T]) ReplaceAfter(item T, duration time.Duration) bool {
	return q.addAfter(item, duration, schedule.KeepNew)
}

// AddAfterIfAbsent is documented at TypedScheduler.
func (q *delaying[T]) AddAfterIfAbsent(item T, duration time.Duration) bool {
	return q.addAfter(item, duration, schedule.KeepOld)
}

// CancelAfter is documented at TypedScheduler.
func (q *delaying[T]) CancelAfter(item T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	waited, head := q.waiting.Remove(item)
	if head {
		q.signal()
	}
	return waited
}

// overtake prepares the schedule for an immediate add of item; it reports whether item should be
// added.
func (q *delaying[T]) overtake(item T, r schedule.Rule) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped || q.draining || (r == schedule.KeepOld && q.waiting.Has(item)) {
		return false
	}
	if _, head := q.waiting.Remove(item); head {
		q.signal()
	}
	return true
}

// Delayed is documented at TypedScheduler.
func (q *delaying[T]) Delayed() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Len()
}

// Drain is documented at TypedScheduler.
func (q *delaying[T]) Drain(ctx context.Context, delayed DelayedItems) error {
	if q.typed == nil {
		return fmt.Errorf("draining the work queue: the underlying queue is a %T, which cannot be drained", q.TypedInterface)
	}
	if delayed < WaitForDelayed || delayed > DropDelayed {
		return fmt.Errorf("draining the work queue: unknown DelayedItems(%d)", delayed)
	}
	ticket := q.beginDrain(delayed)
	err := q.typed.awaitDrained(ctx, ticket)
	if err != nil {
		if left := q.Delayed(); left > 0 {
			err = fmt.Errorf("%w; %d items delayed", err, left)
		}
	}
	q.end()
	q.loop.Wait()
	return err
}

func (q *delaying[T]) beginDrain(delayed DelayedItems) (ticket drainFailures) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.draining = true
	switch delayed {
	case HandOutDelayed:
		q.hurry = true
	case DropDelayed:
		q.waiting.Clear()
	}
	q.signal()
	return q.typed.refuse(q.running && !q.stopped)
}
