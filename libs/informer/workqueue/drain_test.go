package workqueue_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// schedulingQueue is the interface of this package's rate limiting queues.
type schedulingQueue interface {
	workqueue.TypedRateLimitingInterface[string]
	workqueue.TypedScheduler[string]
}

func newScheduling(t *testing.T) schedulingQueue {
	t.Helper()
	q, ok := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)).(schedulingQueue)
	if !ok {
		t.Fatal("a rate limiting queue is not a TypedScheduler")
	}
	t.Cleanup(q.ShutDown)
	return q
}

// inBubble runs a test in a bubble of synthetic time.
func inBubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// comes fails the test unless item is the next to come, at after start.
func comes(t *testing.T, q workqueue.TypedInterface[string], start time.Time, item string, after time.Duration) {
	t.Helper()
	have, shutdown := q.Get()
	if d := time.Since(start); have != item || shutdown || d != after {
		t.Errorf("%q came after %v (shutdown %v), want %q after %v", have, d, shutdown, item, after)
	}
	q.Done(have)
}

func TestScheduler(t *testing.T) {
	inBubble(t, "ReplaceAfter moves an item earlier and later", func(t *testing.T) {
		q, start := newScheduling(t), time.Now()
		q.AddAfter("a", 5*time.Second)
		q.AddAfter("b", 6*time.Second)
		q.AddAfter("c", 7*time.Second)
		if !q.ReplaceAfter("a", 20*time.Second) || !q.ReplaceAfter("c", time.Second) || !q.ReplaceAfter("b", 6*time.Second) {
			t.Error("ReplaceAfter says that it did nothing")
		}
		if !q.ReplaceAfter("new", 2*time.Second) || q.Delayed() != 4 {
			t.Errorf("%d items wait, want 4", q.Delayed())
		}
		comes(t, q, start, "c", time.Second)
		comes(t, q, start, "new", 2*time.Second)
		comes(t, q, start, "b", 6*time.Second)
		comes(t, q, start, "a", 20*time.Second)
		if q.Delayed() != 0 {
			t.Errorf("%d items wait", q.Delayed())
		}
	})

	inBubble(t, "ReplaceAfter without a delay is an Add that cancels", func(t *testing.T) { // the opposite of item 24
		q := newScheduling(t)
		q.AddAfter("a", time.Second)
		if !q.ReplaceAfter("a", 0) || !q.ReplaceAfter("b", -1) {
			t.Error("ReplaceAfter says that it did nothing")
		}
		got(t, q, "a", "b")
		q.Done("a")
		time.Sleep(time.Minute)
		length(t, q, 0)
	})

	inBubble(t, "AddAfterIfAbsent leaves a waiting item alone", func(t *testing.T) {
		q, start := newScheduling(t), time.Now()
		for _, tt := range []struct {
			after time.Duration
			want  bool
		}{{5 * time.Second, true}, {time.Second, false}, {9 * time.Second, false}, {0, false}, {-1, false}} {
			if added := q.AddAfterIfAbsent("a", tt.after); added != tt.want {
				t.Errorf("AddAfterIfAbsent(%v) returned %v", tt.after, added)
			}
		}
		comes(t, q, start, "a", 5*time.Second)
		if !q.AddAfterIfAbsent("a", 0) { // It no longer waits.
			t.Error("an item that does not wait was not added")
		}
		got(t, q, "a")
	})

	inBubble(t, "CancelAfter cancels delayed items, not queued ones", func(t *testing.T) {
		q, start := newScheduling(t), time.Now()
		q.AddAfter("head", time.Second)
		q.AddAfter("a", 2*time.Second)
		q.AddRateLimited("a")
		q.AddAfter("b", 3*time.Second)
		q.Add("b")
		if !q.CancelAfter("head") || !q.CancelAfter("a") || q.CancelAfter("a") || q.CancelAfter("never") {
			t.Error("CancelAfter is wrong about which items waited")
		}
		if n := q.NumRequeues("a"); n != 1 {
			t.Errorf("NumRequeues is %d: the limiter is Forget's", n)
		}
		comes(t, q, start, "b", 0)
		comes(t, q, start, "b", 3*time.Second)
		q.AddAfter("b", time.Second)
		time.Sleep(time.Second)
		synctest.Wait()
		if q.CancelAfter("b") {
			t.Error("CancelAfter cancelled an item that was due")
		}
		got(t, q, "b")
	})

	inBubble(t, "the goroutine ends some time after the last item was cancelled", func(t *testing.T) {
		live := &liveClock{}
		q := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Clock: live})
		q.AddAfter("a", time.Hour)
		synctest.Wait()
		q.(workqueue.TypedScheduler[string]).CancelAfter("a")
		synctest.Wait()
		if n := live.timers.Load(); n != 0 {
			t.Errorf("%d timers live", n)
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := live.tickers.Load() + live.timers.Load(); n != 0 {
			t.Errorf("%d tickers and timers live", n)
		}
	})

	inBubble(t, "after a shutdown nothing is scheduled", func(t *testing.T) {
		q := newScheduling(t)
		q.ShutDown()
		if q.ReplaceAfter("a", 1) || q.ReplaceAfter("a", 0) || q.AddAfterIfAbsent("a", 1) || q.AddAfterIfAbsent("a", 0) || q.CancelAfter("a") {
			t.Error("something was scheduled")
		}
		ended(t, q)
	})

	t.Run("a foreign delaying queue is not one", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			delaying := clientGo().delaying(settings{})
			t.Cleanup(delaying.ShutDown)
			q := ours().limiting(ours().items(), settings{delaying: delaying})
			if _, ok := q.(workqueue.TypedScheduler[string]); ok {
				t.Error("it is a TypedScheduler")
			}
		})
	})
}

// worker gets items until the shutdown, and takes a second for each.
func worker(q workqueue.TypedInterface[string], done *atomic.Int32) {
	for {
		item, shutdown := q.Get()
		if shutdown {
			return
		}
		time.Sleep(time.Second)
		done.Add(1)
		q.Done(item)
	}
}

func TestDrain(t *testing.T) {
	inBubble(t, "waits for queued and held items, and again for dirty ones", func(t *testing.T) {
		q := workqueue.NewTyped[string]()
		for _, item := range []string{"a", "b", "c"} {
			q.Add(item)
		}
		var done atomic.Int32
		go worker(q, &done)
		synctest.Wait()
		q.Add("a") // It is held.
		start := time.Now()
		if err := q.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(start); d != 4*time.Second || done.Load() != 4 {
			t.Errorf("the drain took %v, and %d items were done; want 4s and 4", d, done.Load())
		}
		q.Add("late")
		ended(t, q)
		if err := q.Drain(t.Context()); err != nil {
			t.Errorf("a second drain: %v", err)
		}
	})

	inBubble(t, "ends with its context, and reports what is left", func(t *testing.T) {
		q := workqueue.NewTyped[string]()
		for _, item := range []string{"a", "b", "c"} {
			q.Add(item)
		}
		got(t, q, "a")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errors.New("the pod is being evicted"))
		defer cancel()
		other := background(q.ShutDownWithDrain)
		err := q.Drain(ctx)
		if want := "draining the work queue, with 2 items queued and 1 with workers: the pod is being evicted"; err == nil || err.Error() != want {
			t.Errorf("the error is %v, want %s", err, want)
		}
		if !other() {
			t.Error("the end of the context is not a ShutDown")
		}
		got(t, q, "b", "c") // They can still be got.
		ended(t, q)
	})

	inBubble(t, "a context that has ended does not hurt a queue that is empty", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		q := workqueue.NewTyped[string]()
		if err := q.Drain(ctx); err != nil {
			t.Error(err)
		}
	})

	inBubble(t, "ShutDown ends it", func(t *testing.T) {
		q := newScheduling(t)
		q.AddAfter("a", time.Hour)
		var err error
		returned := background(func() { err = q.Drain(t.Context(), workqueue.WaitForDelayed) })
		if returned() || !q.ShuttingDown() {
			t.Fatal("the drain did not wait, or does not shut down")
		}
		q.ShutDown()
		if !returned() || !errors.Is(err, workqueue.ErrShutDown) {
			t.Errorf("the error is %v, want %v", err, workqueue.ErrShutDown)
		}
	})

	inBubble(t, "a drain that drops what it waits for ends it with an error", func(t *testing.T) {
		q := newScheduling(t)
		q.AddAfter("a", time.Hour)
		var err error
		returned := background(func() { err = q.Drain(t.Context(), workqueue.WaitForDelayed) })
		returned()
		q.ShutDownWithDrain()
		if !returned() || !errors.Is(err, workqueue.ErrShutDown) {
			t.Errorf("the error is %v, want %v", err, workqueue.ErrShutDown)
		}
	})

	for _, tt := range []struct {
		name    string
		delayed workqueue.DelayedItems
		took    time.Duration
		done    int32
	}{
		{"delayed items at their times", workqueue.WaitForDelayed, 61 * time.Second, 4},
		{"delayed items at once", workqueue.HandOutDelayed, 4 * time.Second, 4},
		{"delayed items dropped", workqueue.DropDelayed, time.Second, 1},
	} {
		inBubble(t, tt.name, func(t *testing.T) {
			q := newScheduling(t)
			q.Add("a")
			q.AddAfter("a", time.Minute)
			q.AddAfter("b", 30*time.Second)
			q.AddAfter("c", 40*time.Second)
			var done atomic.Int32
			go worker(q, &done)
			synctest.Wait()
			start := time.Now()
			var err error
			returned := background(func() { err = q.Drain(t.Context(), tt.delayed) })
			returned()
			q.Add("late")
			q.AddAfter("late", time.Second)
			q.AddRateLimited("late")
			if q.ReplaceAfter("late", 0) || q.AddAfterIfAbsent("late", 1) {
				t.Error("an item was accepted during the drain")
			}
			for !returned() {
				time.Sleep(time.Second)
			}
			if d := time.Since(start); err != nil || d != tt.took || done.Load() != tt.done {
				t.Errorf("took %v, %d items were done, error %v; want %v and %d", d, done.Load(), err, tt.took, tt.done)
			}
			ended(t, q)
		})
	}

	inBubble(t, "delayed items that are not due in time are counted and dropped", func(t *testing.T) {
		q := newScheduling(t)
		q.AddAfter("a", time.Hour)
		q.AddAfter("b", time.Second)
		var done atomic.Int32
		go worker(q, &done)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := q.Drain(ctx, workqueue.WaitForDelayed)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "0 items queued and 0 with workers") || !strings.Contains(err.Error(), "1 items delayed") {
			t.Errorf("the error is %v", err)
		}
		time.Sleep(2 * time.Hour)
		if done.Load() != 1 || q.Delayed() != 0 {
			t.Errorf("%d items were done, %d wait", done.Load(), q.Delayed())
		}
	})

	inBubble(t, "drains at once, above and beneath, all wait", func(t *testing.T) {
		beneath := workqueue.NewTyped[string]()
		above := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Queue: beneath}).(workqueue.TypedScheduler[string])
		above.ReplaceAfter("a", time.Minute)
		var done atomic.Int32
		go worker(beneath, &done)
		var drains sync.WaitGroup
		for range 3 {
			drains.Go(func() {
				if err := above.Drain(t.Context(), workqueue.WaitForDelayed); err != nil || done.Load() != 1 {
					t.Errorf("%d items done, error %v", done.Load(), err)
				}
			})
		}
		synctest.Wait()
		drains.Go(func() {
			if err := beneath.Drain(t.Context()); err != nil || done.Load() != 1 {
				t.Errorf("beneath: %d items done, error %v", done.Load(), err)
			}
		})
		drains.Wait()
	})

	inBubble(t, "bad arguments do nothing", func(t *testing.T) {
		q := newScheduling(t)
		if err := q.Drain(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "DelayedItems(7)") {
			t.Errorf("the error is %v", err)
		}
		foreign := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{
			Queue: &gated{TypedInterface: workqueue.NewTyped[string]()},
		})
		err := foreign.(workqueue.TypedScheduler[string]).Drain(t.Context(), workqueue.WaitForDelayed)
		if err == nil || !strings.Contains(err.Error(), "*workqueue_test.gated") {
			t.Errorf("the error is %v", err)
		}
		if q.ShuttingDown() || foreign.ShuttingDown() {
			t.Error("a drain that cannot be done shut the queue down")
		}
	})
}

// TestDrainLosesNothing does everything at once, for the race detector: nothing added before the
// drain is lost.
func TestDrainLosesNothing(t *testing.T) {
	for range 50 {
		q := workqueue.NewTypedDelayingQueue[int]()
		var workers, producers sync.WaitGroup
		var seen sync.Map
		for range 4 {
			workers.Go(func() {
				for {
					item, shutdown := q.Get()
					if shutdown {
						return
					}
					seen.Store(item, true)
					q.Done(item)
				}
			})
		}
		const each = 50
		for p := range 4 {
			producers.Go(func() {
				for i := range each {
					q.AddAfter(p*each+i, time.Duration(i%7)*10*time.Microsecond)
				}
			})
		}
		producers.Wait()
		if err := q.(workqueue.TypedScheduler[int]).Drain(t.Context(), workqueue.WaitForDelayed); err != nil {
			t.Fatal(err)
		}
		workers.Wait()
		for i := range 4 * each {
			if _, ok := seen.Load(i); !ok {
				t.Fatalf("item %d was lost", i)
			}
		}
	}
}
