package workqueue_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// got is what Get gives, for tests that compare it.
func got(t *testing.T, q workqueue.TypedInterface[string], want string) {
	t.Helper()
	item, shutdown := q.Get()
	if shutdown || item != want {
		t.Fatalf("Get gave %q, shutdown %v; want %q", item, shutdown, want)
	}
}

func length(t *testing.T, q workqueue.TypedInterface[string], want int) {
	t.Helper()
	if n := q.Len(); n != want {
		t.Fatalf("Len is %d, want %d", n, want)
	}
}

// Checklist A1-A5, A20.
func TestQueueKeepsEachItemOnce(t *testing.T) {
	q := workqueue.NewTyped[string]()
	q.Add("a")
	q.Add("b")
	q.Add("a")
	length(t, q, 2)
	got(t, q, "a")
	length(t, q, 1)
	q.Add("a")
	q.Add("a")
	length(t, q, 1) // It is with a worker.
	got(t, q, "b")
	q.Done("a")
	length(t, q, 1)
	q.Done("b")
	length(t, q, 1)
	got(t, q, "a")
	q.Done("a")
	length(t, q, 0)
	q.ShutDown()
	if !q.ShuttingDown() {
		t.Error("ShuttingDown is false after ShutDown")
	}
	q.Add("c")
	if item, shutdown := q.Get(); !shutdown || item != "" {
		t.Errorf("Get gave %q, shutdown %v after shutdown", item, shutdown)
	}
}

// Checklist A12, mended: Done of an item that no worker holds is ignored.
func TestDoneOfAnItemThatIsNotHeldIsIgnored(t *testing.T) {
	q := workqueue.NewTyped[string]()
	q.Add("a")
	q.Done("a")
	q.Done("never")
	length(t, q, 1)
	got(t, q, "a")
	length(t, q, 0)
	q.Done("a")
}

// Checklist A2, A3, A19.
func TestTouchIsCalledForWaitingItemsOnly(t *testing.T) {
	inner := &touched{Queue: workqueue.DefaultQueue[string]()}
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Queue: inner})
	q.Add("a")
	q.Add("a")
	if inner.touches != 1 {
		t.Fatalf("%d touches of a waiting item, want 1", inner.touches)
	}
	got(t, q, "a")
	q.Add("a")
	q.Add("a")
	if inner.touches != 1 {
		t.Fatalf("%d touches after adds of a held item, want 1", inner.touches)
	}
}

type touched struct {
	workqueue.Queue[string]
	touches int
}

func (q *touched) Touch(string) { q.touches++ }

// Checklist A6, A7, A8.
func TestShutDownHandsOutWhatIsQueuedAndEndsEveryGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTyped[string]()
		var ended atomic.Int32
		for range 5 {
			go func() {
				for {
					item, shutdown := q.Get()
					if shutdown {
						ended.Add(1)
						return
					}
					q.Done(item)
				}
			}()
		}
		synctest.Wait()
		if n := ended.Load(); n != 0 {
			t.Fatalf("%d workers ended before the shutdown", n)
		}
		q.ShutDown()
		q.ShutDown()
		synctest.Wait()
		if n := ended.Load(); n != 5 {
			t.Fatalf("%d of 5 workers ended", n)
		}
	})
}

// Checklist A9, A10, A13, and A11 mended: every drain is woken.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTyped[string]()
		q.Add("held")
		q.Add("queued")
		got(t, q, "held")
		var drained atomic.Int32
		for range 3 {
			go func() {
				q.ShutDownWithDrain()
				drained.Add(1)
			}()
		}
		synctest.Wait()
		if drained.Load() != 0 {
			t.Fatal("a drain ended while a worker holds an item")
		}
		q.Done("held")
		synctest.Wait()
		if n := drained.Load(); n != 3 {
			t.Fatalf("%d of 3 drains ended", n)
		}
		got(t, q, "queued") // A drain does not wait for what is queued.
		go func() {
			q.ShutDownWithDrain()
			drained.Add(1)
		}()
		synctest.Wait()
		if drained.Load() != 3 {
			t.Fatal("a drain after a drain did not wait")
		}
		q.ShutDown()
		synctest.Wait()
		if drained.Load() != 4 {
			t.Fatal("ShutDown did not release a drain")
		}
	})
}

// Checklist A5 with many workers: no item is with two of them.
func TestNoItemIsWithTwoWorkers(t *testing.T) {
	q := workqueue.NewTyped[int]()
	var holders [10]atomic.Int32
	var worked atomic.Int32
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for {
				item, shutdown := q.Get()
				if shutdown {
					return
				}
				if holders[item].Add(1) != 1 {
					t.Errorf("item %d is with two workers", item)
				}
				worked.Add(1)
				runtime.Gosched()
				holders[item].Add(-1)
				q.Done(item)
			}
		})
	}
	for i := range 10_000 {
		q.Add(i % len(holders))
	}
	q.ShutDown()
	workers.Wait()
	if worked.Load() == 0 {
		t.Error("nothing was worked on")
	}
}

// Checklist A16.
func TestItemsAreNotRetained(t *testing.T) {
	type thing struct{ bytes [1 << 10]byte }
	q := workqueue.NewTyped[*thing]()
	var collected atomic.Int32
	const things = 100
	for range things {
		item := &thing{}
		runtime.AddCleanup(item, func(int) { collected.Add(1) }, 0)
		q.Add(item)
	}
	for range things {
		item, _ := q.Get()
		q.Done(item)
	}
	for range 100 {
		runtime.GC()
		if collected.Load() == things {
			break
		}
		runtime.Gosched()
	}
	if n := collected.Load(); n != things {
		t.Errorf("%d of %d items were collected", n, things)
	}
	runtime.KeepAlive(q)
}

// The default queue is first in, first out through growing and shrinking.
func TestDefaultQueueOrder(t *testing.T) {
	q := workqueue.DefaultQueue[int]()
	next, last := 0, 0
	for round := range 200 {
		for range (round * 37) % 501 {
			q.Push(last)
			last++
		}
		for range min(q.Len(), (round*53)%499) {
			if item := q.Pop(); item != next {
				t.Fatalf("Pop gave %d, want %d", item, next)
			}
			next++
		}
		if q.Len() != last-next {
			t.Fatalf("Len is %d, want %d", q.Len(), last-next)
		}
	}
}

// Checklist B21-B26.
func TestAddAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelayingQueue[string]()
		q.AddAfter("now", 0)
		q.AddAfter("past", -time.Second)
		length(t, q, 2)
		q.AddAfter("a", 10*time.Second)
		q.AddAfter("b", 5*time.Second)
		q.AddAfter("b", 20*time.Second) // The earlier time stands.
		q.AddAfter("c", 20*time.Second)
		q.AddAfter("c", time.Second) // And wins.
		got(t, q, "now")
		got(t, q, "past")
		q.Done("now")
		q.Done("past")
		for _, step := range []struct {
			at   time.Duration
			want string
		}{{time.Second, "c"}, {5 * time.Second, "b"}, {10 * time.Second, "a"}} {
			start := time.Now()
			got(t, q, step.want)
			q.Done(step.want)
			_ = start
		}
		if n := q.Len(); n != 0 {
			t.Fatalf("%d items are left", n)
		}
		time.Sleep(time.Minute)
		length(t, q, 0) // No second coming of b or c.
		q.ShutDown()
	})
}

func TestAddAfterTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelayingQueue[string]()
		defer q.ShutDown()
		start := time.Now()
		q.AddAfter("a", 25*time.Second)
		got(t, q, "a")
		if d := time.Since(start); d != 25*time.Second {
			t.Errorf("the item came after %v, want 25s", d)
		}
	})
}

// Checklist B24, kept: Add does not cancel a delayed add.
func TestAddDoesNotCancelADelayedAdd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelayingQueue[string]()
		defer q.ShutDown()
		q.AddAfter("a", time.Second)
		q.Add("a")
		got(t, q, "a")
		q.Done("a")
		got(t, q, "a")
		q.Done("a")
	})
}

// Checklist B25, mended: items of one instant keep their order.
func TestItemsDueAtOneInstantKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelayingQueue[string]()
		defer q.ShutDown()
		for _, item := range []string{"a", "b", "c", "d", "e", "f"} {
			q.AddAfter(item, time.Second)
		}
		for _, item := range []string{"a", "b", "c", "d", "e", "f"} {
			got(t, q, item)
		}
	})
}

// Checklist B26, B27, B31 and B32, the last two mended.
func TestDelayingQueueEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := workqueue.NewTypedDelayingQueue[string]()
		for i := range 5000 { // More than client-go's hand-over buffer.
			q.AddAfter(fmt.Sprint(i), time.Hour)
		}
		q.ShutDownWithDrain()
		q.AddAfter("late", time.Second)
		time.Sleep(2 * time.Hour)
		length(t, q, 0)
		q.ShutDown()
		q.ShutDown()
	})
}

// Checklist C34-C36.
func TestRateLimitingQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Minute)
		q := workqueue.NewTypedRateLimitingQueue(limiter)
		defer q.ShutDown()
		start := time.Now()
		for i, want := range []time.Duration{1, 3, 7, 15} {
			q.AddRateLimited("a")
			got(t, q, "a")
			q.Done("a")
			if d := time.Since(start); d != want*time.Second {
				t.Fatalf("failure %d came back after %v, want %v", i, d, want*time.Second)
			}
		}
		if n := q.NumRequeues("a"); n != 4 {
			t.Errorf("NumRequeues is %d, want 4", n)
		}
		q.Forget("a")
		if n := q.NumRequeues("a"); n != 0 {
			t.Errorf("NumRequeues is %d after Forget", n)
		}
	})
}

// Checklist C37-C44.
func TestLimiters(t *testing.T) {
	t.Run("exponential", func(t *testing.T) {
		l := workqueue.NewTypedItemExponentialFailureRateLimiter[string](5*time.Millisecond, 1000*time.Second)
		want := 5 * time.Millisecond
		for i := range 2500 {
			if d := l.When("a"); d != min(want, 1000*time.Second) {
				t.Fatalf("call %d gave %v, want %v", i, d, want)
			}
			if want < 1000*time.Second {
				want *= 2
			}
		}
		if l.NumRequeues("a") != 2500 || l.NumRequeues("b") != 0 {
			t.Error("the count does not go on past the cap, or is not per item")
		}
	})
	t.Run("never negative", func(t *testing.T) { // C39, mended
		l := workqueue.NewTypedItemExponentialFailureRateLimiter[string](1, math.MaxInt64)
		for i := range 100 {
			if d := l.When("a"); d <= 0 {
				t.Fatalf("call %d gave %v", i, d)
			}
		}
	})
	t.Run("fast then slow", func(t *testing.T) {
		l := workqueue.NewTypedItemFastSlowRateLimiter[string](1, 9, 3)
		for i, want := range []time.Duration{1, 1, 1, 9, 9} {
			if d := l.When("a"); d != want {
				t.Errorf("call %d gave %v, want %v", i, d, want)
			}
		}
		l.Forget("a")
		if d := l.When("a"); d != 1 {
			t.Errorf("a forgotten item waits %v", d)
		}
	})
	t.Run("maximum of several", func(t *testing.T) {
		a := workqueue.NewTypedItemFastSlowRateLimiter[string](5, 3, 3)
		b := workqueue.NewTypedItemExponentialFailureRateLimiter[string](1, 100)
		l := workqueue.NewTypedMaxOfRateLimiter(a, b)
		for i, want := range []time.Duration{5, 5, 5, 8, 16} {
			if d := l.When("a"); d != want {
				t.Errorf("call %d gave %v, want %v", i, d, want)
			}
		}
		if a.NumRequeues("a") != 5 || b.NumRequeues("a") != 5 {
			t.Error("not every limiter counted")
		}
		if d := workqueue.NewTypedMaxOfRateLimiter[string]().When("a"); d != 0 {
			t.Errorf("no limiters give %v", d)
		}
		capped := workqueue.NewTypedWithMaxWaitRateLimiter(b, 10)
		if d := capped.When("a"); d != 10 || b.NumRequeues("a") != 6 {
			t.Errorf("a capped limiter gave %v after %d calls", d, b.NumRequeues("a"))
		}
	})
	t.Run("default", func(t *testing.T) { // C45
		synctest.Test(t, func(t *testing.T) {
			l := workqueue.DefaultTypedControllerRateLimiter[int]()
			for i := range 100 {
				if d := l.When(i); d != 5*time.Millisecond {
					t.Fatalf("item %d waits %v", i, d)
				}
			}
			if d := l.When(100); d != 100*time.Millisecond {
				t.Errorf("the 101st item waits %v, want 100ms", d)
			}
		})
	})
}

// Checklist D46, D47.
func TestParallelizeUntil(t *testing.T) {
	for _, tt := range []struct{ workers, pieces, chunk int }{
		{1, 0, 0}, {1, 1, 0}, {4, 1000, 1}, {4, 1000, 7}, {16, 5, 100}, {3, 10, -1},
	} {
		t.Run(fmt.Sprint(tt), func(t *testing.T) {
			done := make([]atomic.Int32, tt.pieces)
			workqueue.ParallelizeUntil(nil, tt.workers, tt.pieces, func(piece int) { //nolint:staticcheck // a nil context is allowed
				done[piece].Add(1)
			}, workqueue.WithChunkSize(tt.chunk))
			for i := range done {
				if n := done[i].Load(); n != 1 {
					t.Errorf("piece %d was done %d times", i, n)
				}
			}
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var done atomic.Int32
		workqueue.ParallelizeUntil(ctx, 1, 1000, func(piece int) {
			if done.Add(1) == 5 {
				cancel()
			}
		}, workqueue.WithChunkSize(100))
		if n := done.Load(); n != 5 {
			t.Errorf("%d pieces were done, want 5", n)
		}
	})
}
