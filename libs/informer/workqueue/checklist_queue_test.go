package workqueue_test

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// spy is a Queue that records its calls, and notices concurrent ones.
type spy struct {
	workqueue.Queue[string]
	mu                 sync.Mutex
	calls              []string
	busy               atomic.Bool
	concurrent         atomic.Bool
	touches, pushes    int
	yieldInsideOfCalls bool
}

func (s *spy) call(name string) func() {
	if !s.busy.CompareAndSwap(false, true) {
		s.concurrent.Store(true)
	}
	s.mu.Lock()
	s.calls = append(s.calls, name)
	s.mu.Unlock()
	if s.yieldInsideOfCalls {
		runtime.Gosched()
	}
	return func() { s.busy.Store(false) }
}

// take returns the calls since the last take.
func (s *spy) take() (calls []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	calls, s.calls = s.calls, nil
	return calls
}

func (s *spy) Touch(item string) {
	defer s.call("touch " + item)()
	s.touches++
	s.Queue.Touch(item)
}

func (s *spy) Push(item string) {
	defer s.call("push " + item)()
	s.pushes++
	s.Queue.Push(item)
}

func (s *spy) Pop() string {
	defer s.call("pop")()
	return s.Queue.Pop()
}

func (s *spy) Len() int { return s.Queue.Len() }

func TestChecklistQueue(t *testing.T) {
	onBoth(t, "1: Len counts queued items only", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("a")
		q.Add("b")
		length(t, q, 2)
		got(t, q, "a")
		length(t, q, 1)
		got(t, q, "b")
		length(t, q, 0)
	})

	onBoth(t, "2: Add of a queued item only touches", func(t *testing.T, im implementation) {
		order := &spy{Queue: im.defaultsQueue()}
		q := im.queue(settings{order: order})
		q.Add("a")
		q.Add("b")
		q.Add("a")
		length(t, q, 2)
		if calls, want := order.take(), []string{"push a", "push b", "touch a"}; !slices.Equal(calls, want) {
			t.Errorf("the Queue was called %q, want %q", calls, want)
		}
		got(t, q, "a", "b")
	})

	onBoth(t, "3: Add of a processing item does not queue it nor touch", func(t *testing.T, im implementation) {
		order := &spy{Queue: im.defaultsQueue()}
		q := im.queue(settings{order: order})
		q.Add("a")
		got(t, q, "a")
		for range 3 {
			q.Add("a")
		}
		length(t, q, 0)
		if order.touches != 0 || order.pushes != 1 {
			t.Errorf("%d touches and %d pushes, want none and 1", order.touches, order.pushes)
		}
		q.Done("a")
		got(t, q, "a") // It was marked dirty.
	})

	onBoth(t, "4: Done of a dirty item queues it once, at the tail", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("a")
		got(t, q, "a")
		q.Add("a")
		q.Add("a")
		q.Add("b")
		q.Done("a")
		length(t, q, 2)
		got(t, q, "b", "a")
		q.Done("a")
		q.Done("b")
		length(t, q, 0) // Both were clean, and are forgotten:
		q.Add("b")
		q.Add("a")
		got(t, q, "b", "a")
	})

	onBoth(t, "5: an item is never with two workers", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		items := []string{"a", "b", "c", "d", "e"}
		var holders [5]atomic.Int32
		var worked atomic.Int32
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for {
					item, shutdown := q.Get()
					if shutdown {
						return
					}
					holder := &holders[item[0]-'a']
					if holder.Add(1) != 1 {
						t.Errorf("item %s is with two workers", item)
					}
					worked.Add(1)
					runtime.Gosched()
					holder.Add(-1)
					q.Done(item)
				}
			})
		}
		for i := range 5_000 {
			q.Add(items[i%len(items)])
			if i%100 == 0 {
				runtime.Gosched()
			}
		}
		q.ShutDown()
		workers.Wait()
		if worked.Load() < int32(len(items)) {
			t.Errorf("only %d items were worked on", worked.Load())
		}
	})

	onBoth(t, "6: Get blocks while empty, is first in first out, and ends when empty and shut down", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		var item string
		returned := background(func() { item, _ = q.Get() })
		if returned() {
			t.Fatal("Get of an empty queue returned")
		}
		q.Add("x")
		if !returned() || item != "x" {
			t.Fatalf("a blocked Get returned %q", item)
		}
		for _, item := range []string{"c", "a", "b"} {
			q.Add(item)
		}
		got(t, q, "c", "a")
		q.ShutDown()
		got(t, q, "b")
		ended(t, q)
	})

	onBoth(t, "7: after ShutDown Add does nothing, queued items are handed out, each Get returns", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("held")
		got(t, q, "held")
		var blocked []func() bool
		for range 5 {
			blocked = append(blocked, background(func() { ended(t, q) }))
		}
		if blocked[0]() {
			t.Fatal("Get of an empty queue returned")
		}
		q.ShutDown()
		for _, returned := range blocked {
			if !returned() {
				t.Fatal("a blocked Get did not return")
			}
		}
		q.Add("held") // neither marked
		q.Add("late") // nor queued
		q.Done("held")
		ended(t, q)

		q = im.queue(settings{})
		q.Add("a")
		q.Add("b")
		q.ShutDown()
		got(t, q, "a", "b")
		ended(t, q)
	})

	onBoth(t, "8: ShutDown does not wait, may be called again, and releases a drain", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("held")
		got(t, q, "held")
		drained := background(q.ShutDownWithDrain)
		if drained() {
			t.Fatal("the drain did not wait")
		}
		q.ShutDown()
		if !drained() {
			t.Fatal("ShutDown did not release the drain")
		}
		q.ShutDown()
		q.Done("held")
		ended(t, q)
	})

	onBoth(t, "9: a drain waits for held items, and goes on with those that become dirty", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("a")
		q.Add("b")
		got(t, q, "a", "b")
		q.Add("a")
		drained := background(q.ShutDownWithDrain)
		q.Done("a")
		length(t, q, 1)
		got(t, q, "a")
		q.Done("b")
		if drained() {
			t.Fatal("the drain ended while an item is held")
		}
		q.Done("a")
		if !drained() {
			t.Fatal("the drain did not end")
		}
		ended(t, q)
	})

	// A quirk, kept: programs end their workers before or after the drain and rely on it to return.
	// Drain is for programs that want the queued items done.
	onBoth(t, "10: a drain does not wait for queued items", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("queued")
		if !background(q.ShutDownWithDrain)() {
			t.Fatal("the drain waits for a queued item")
		}
		got(t, q, "queued")
		ended(t, q)
	})

	// A quirk, fixed: no program can want to wait for ever.
	onBoth(t, "11: every concurrent drain ends", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("held")
		got(t, q, "held")
		first, second := background(q.ShutDownWithDrain), background(q.ShutDownWithDrain)
		if first() || second() {
			t.Fatal("a drain did not wait")
		}
		q.Done("held")
		ends := 0
		for _, drained := range []func() bool{first, second} {
			if drained() {
				ends++
			}
		}
		if want := differs(im, 2, 1); ends != want {
			t.Errorf("%d of 2 drains ended, want %d", ends, want)
		}
		q.ShutDown()
	})

	// A quirk, fixed: only a program that breaks the rules of Done can notice.
	onBoth(t, "12: Done of an item that no worker holds does nothing", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("a")
		q.Done("a")
		q.Done("never")
		length(t, q, differs(im, 1, 2))
		got(t, q, "a")
		if !im.ours {
			got(t, q, "a") // Now two workers have it.
		}
		length(t, q, 0)
	})

	onBoth(t, "13: a drain after ShutDown waits, and ShutDown releases it", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("held")
		got(t, q, "held")
		q.ShutDown()
		drained := background(q.ShutDownWithDrain)
		if drained() {
			t.Fatal("the drain did not wait")
		}
		q.ShutDown()
		if !drained() {
			t.Fatal("ShutDown did not release the drain")
		}
	})

	onBoth(t, "14: both shutdowns return after the metrics' goroutine has ended", func(t *testing.T, im implementation) {
		for _, shutDown := range []func(workqueue.TypedInterface[string]){
			workqueue.TypedInterface[string].ShutDown, workqueue.TypedInterface[string].ShutDownWithDrain,
		} {
			live := &liveClock{}
			q := im.queue(settings{name: "q", metrics: &recorded{}, clock: live})
			q.Add("a")
			got(t, q, "a")
			q.Done("a")
			synctest.Wait()
			if n := live.tickers.Load() + live.timers.Load(); n != 1 {
				t.Fatalf("%d tickers and timers live, want 1", n)
			}
			shutDown(q)
			if n := live.tickers.Load() + live.timers.Load(); n != 0 {
				t.Errorf("%d tickers and timers live after the shutdown", n)
			}
		}
	})

	onBoth(t, "15: without a name or a provider there is no goroutine", func(t *testing.T, im implementation) {
		for _, s := range []settings{{}, {name: "q"}, {metrics: &recorded{}}} {
			live := &liveClock{}
			s.clock = live
			q := im.queue(s)
			q.Add("a")
			got(t, q, "a")
			q.Done("a")
			time.Sleep(time.Minute)
			if n := live.made.Load(); n != 0 {
				t.Errorf("%d tickers and timers were made for %+v", n, s)
			}
			// No ShutDown: the bubble would not end if there were a goroutine.
		}
	})

	onBoth(t, "17: the untyped names are of any", func(t *testing.T, im implementation) {
		for _, q := range im.makeUntypeds() {
			q.Add("a")
			q.Add(1)
			for _, want := range []any{"a", 1} {
				if item, shutdown := q.Get(); item != want || shutdown {
					t.Errorf("Get of a %T returned %v, %v; want %v", q, item, shutdown, want)
				}
				q.Done(want)
			}
			q.ShutDown()
		}
	})

	onBoth(t, "18: each option that is nil has its default", func(t *testing.T, im implementation) {
		order := &spy{Queue: im.defaultsQueue()}
		for _, s := range []settings{
			{}, {name: "q"}, {name: "q", metrics: &recorded{}}, {clock: &liveClock{}}, {order: order},
		} {
			q := im.queue(s)
			for _, item := range []string{"b", "a", "b"} {
				q.Add(item)
			}
			got(t, q, "b", "a")
			q.ShutDown()
			ended(t, q)
			if s.metrics != nil && s.metrics.adds.get() != 2 {
				t.Errorf("%v adds counted, want 2", s.metrics.adds.get())
			}
		}
		if order.pushes != 2 {
			t.Error("the given Queue was not used")
		}
	})

	onBoth(t, "19: a Queue is called under the lock only", func(t *testing.T, im implementation) {
		order := &spy{Queue: im.defaultsQueue(), yieldInsideOfCalls: true}
		q := im.queue(settings{order: order})
		var workers, producers sync.WaitGroup
		for range 4 {
			workers.Go(func() {
				for {
					item, shutdown := q.Get()
					if shutdown {
						return
					}
					q.Done(item)
				}
			})
			producers.Go(func() {
				for i := range 500 {
					q.Add([]string{"a", "b", "c"}[i%3])
					q.Len()
				}
			})
		}
		producers.Wait()
		q.ShutDown()
		workers.Wait()
		if order.concurrent.Load() {
			t.Error("two calls of the Queue at once")
		}
	})

	onBoth(t, "20: ShuttingDown is true at once, also while draining", func(t *testing.T, im implementation) {
		q := im.queue(settings{})
		q.Add("held")
		got(t, q, "held")
		if q.ShuttingDown() {
			t.Error("true before any shutdown")
		}
		drained := background(q.ShutDownWithDrain)
		if drained() || !q.ShuttingDown() {
			t.Error("false while draining")
		}
		q.Done("held")
		drained()
		q = im.queue(settings{})
		q.Add("queued")
		q.ShutDown()
		if !q.ShuttingDown() {
			t.Error("false after ShutDown, as items are queued")
		}
	})
}

// TestItemsAreNotRetained checks that a finished item can be garbage collected (16). It runs
// outside a bubble, for the collector's sake, and only for this package: client-go has a test of
// its own.
func TestItemsAreNotRetained(t *testing.T) {
	type thing struct{ bytes [1 << 10]byte }
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[*thing](1, 1))
	var collected atomic.Int32
	const things = 100
	for i := range things {
		item := &thing{bytes: [1 << 10]byte{byte(i)}}
		runtime.AddCleanup(item, func(int) { collected.Add(1) }, 0)
		switch i % 3 {
		case 0:
			q.Add(item)
		case 1:
			q.AddAfter(item, time.Nanosecond)
		default:
			q.AddRateLimited(item)
		}
	}
	for range things {
		item, _ := q.Get()
		q.Forget(item)
		q.Done(item)
	}
	for deadline := time.Now().Add(30 * time.Second); collected.Load() < things && time.Now().Before(deadline); {
		runtime.GC()
		runtime.Gosched()
	}
	if n := collected.Load(); n != things {
		t.Errorf("%d of %d items were collected", n, things)
	}
	q.ShutDown()
}

// TestDefaultQueueOrder checks that the default queue is first in, first out through growing and
// shrinking.
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
				t.Fatalf("Pop returned %d, want %d", item, next)
			}
			next++
		}
		if q.Len() != last-next {
			t.Fatalf("Len is %d, want %d", q.Len(), last-next)
		}
	}
}
