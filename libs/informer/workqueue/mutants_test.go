package workqueue_test

import (
	"testing"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// The comparison with client-go is only worth something if it finds faults: each of these
// mutants of our queue must be found.
func TestComparisonFindsMutants(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(*counts) limitedQueue
	}{
		{"last in, first out", func(c *counts) limitedQueue {
			return limited(c, &lifo{}, nil)
		}},
		{"no dirty mark while a worker has the item", func(c *counts) limitedQueue {
			return limited(c, nil, func(q limitedQueue) limitedQueue { return &forgetful{limitedQueue: q, held: map[string]bool{}} })
		}},
		{"a drain that does not wait", func(c *counts) limitedQueue {
			return limited(c, nil, func(q limitedQueue) limitedQueue { return hasty{q} })
		}},
		{"a later AddAfter wins", func(c *counts) limitedQueue {
			return limited(c, nil, func(q limitedQueue) limitedQueue { return &lateWins{limitedQueue: q, due: map[string]time.Time{}} })
		}},
		{"an item is handed out twice", func(c *counts) limitedQueue {
			return limited(c, nil, func(q limitedQueue) limitedQueue { return &twice{limitedQueue: q} })
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(100) {
				ours, theirs := replay(t, seed, tt.make)
				for i := range theirs {
					if i >= len(ours) || ours[i] != theirs[i] {
						return
					}
				}
			}
			t.Error("100 seeds did not find it")
		})
	}
}

// limited is our queue with another order, or wrapped.
func limited(c *counts, order workqueue.Queue[string], wrap func(limitedQueue) limitedQueue) limitedQueue {
	inner := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: c, Queue: order})
	var q limitedQueue = workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](7*time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{
			DelayingQueue: workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
				Name: "q", MetricsProvider: c, Queue: inner,
			}),
		})
	if wrap != nil {
		q = wrap(q)
	}
	return q
}

type lifo struct{ items []string }

func (l *lifo) Touch(string)     {}
func (l *lifo) Push(item string) { l.items = append(l.items, item) }
func (l *lifo) Len() int         { return len(l.items) }
func (l *lifo) Pop() string {
	item := l.items[len(l.items)-1]
	l.items = l.items[:len(l.items)-1]
	return item
}

// forgetful loses an add of an item that a worker has. Its driver is one goroutine.
type forgetful struct {
	limitedQueue
	held map[string]bool
}

func (f *forgetful) Add(item string) {
	if !f.held[item] {
		f.limitedQueue.Add(item)
	}
}

func (f *forgetful) Get() (string, bool) {
	item, shutdown := f.limitedQueue.Get()
	f.held[item] = !shutdown
	return item, shutdown
}

func (f *forgetful) Done(item string) {
	delete(f.held, item)
	f.limitedQueue.Done(item)
}

type hasty struct{ limitedQueue }

func (h hasty) ShutDownWithDrain() { h.ShutDown() }

// lateWins delays an item that waits already to the later of both times.
type lateWins struct {
	limitedQueue
	due map[string]time.Time
}

func (l *lateWins) AddAfter(item string, d time.Duration) {
	at := time.Now().Add(d)
	if old, waits := l.due[item]; waits && old.After(time.Now()) && at.Before(old) {
		return
	}
	l.due[item] = at
	l.limitedQueue.AddAfter(item, d)
}

// twice hands the item that it handed out last out once more, once.
type twice struct {
	limitedQueue
	last string
	done bool
}

func (w *twice) Get() (string, bool) {
	if w.last != "" && !w.done {
		w.done = true
		return w.last, false
	}
	item, shutdown := w.limitedQueue.Get()
	w.last = item
	return item, shutdown
}
