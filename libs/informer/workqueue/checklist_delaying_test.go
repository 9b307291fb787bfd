package workqueue_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// gated is a queue whose Add waits for a gate.
type gated struct {
	workqueue.TypedInterface[string]
	gate chan struct{}
}

func (g *gated) Add(item string) {
	<-g.gate
	g.TypedInterface.Add(item)
}

func TestChecklistDelayingQueue(t *testing.T) {
	// newQueue creates a queue whose goroutines end with the test.
	newQueue := func(t *testing.T, im implementation, s settings) workqueue.TypedDelayingInterface[string] {
		q := im.delaying(s)
		t.Cleanup(q.ShutDown)
		return q
	}

	onBoth(t, "21: AddAfter without a delay is Add; with one the item does not appear before", func(t *testing.T, im implementation) {
		q := newQueue(t, im, settings{})
		q.AddAfter("now", 0)
		q.AddAfter("past", -time.Hour)
		if n := q.Len(); n != 2 { // without waiting: it was synchronous
			t.Fatalf("Len is %d, want 2", n)
		}
		got(t, q, "now", "past")
		q.AddAfter("later", 25*time.Second)
		time.Sleep(25*time.Second - time.Nanosecond)
		length(t, q, 0)
		time.Sleep(time.Nanosecond)
		length(t, q, 1)
		got(t, q, "later")
	})

	onBoth(t, "22: ready means at or before now; a due item goes through Add", func(t *testing.T, im implementation) {
		order := &spy{Queue: im.defaultsQueue()}
		q := newQueue(t, im, settings{beneath: im.queue(settings{order: order})})
		q.AddAfter("a", time.Second)
		q.AddAfter("b", time.Second+1)
		synctest.Wait()
		q.Add("a")
		time.Sleep(time.Second) // to the exact instant
		length(t, q, 1)
		if calls, want := order.take(), []string{"push a", "touch a"}; !slices.Equal(calls, want) {
			t.Errorf("the Queue was called %q, want %q", calls, want)
		}
	})

	onBoth(t, "23: of two delays of one item the earlier stands", func(t *testing.T, im implementation) {
		q := newQueue(t, im, settings{})
		start := time.Now()
		q.AddAfter("a", 5*time.Second)
		q.AddAfter("a", 20*time.Second)
		q.AddAfter("b", 20*time.Second)
		q.AddAfter("b", 3*time.Second)
		for _, want := range []struct {
			item  string
			after time.Duration
		}{{"b", 3 * time.Second}, {"a", 5 * time.Second}} {
			item, _ := q.Get()
			q.Done(item)
			if d := time.Since(start); item != want.item || d != want.after {
				t.Errorf("%s came after %v, want %v", item, d, want)
			}
		}
		time.Sleep(time.Minute)
		length(t, q, 0) // The later delays do not count.
	})

	// A quirk, kept: programs use AddAfter for work that must happen at a time, whatever else
	// happens before. ReplaceAfter(item, 0) is for programs that want the opposite.
	onBoth(t, "24: Add does not cancel a delayed add", func(t *testing.T, im implementation) {
		q := newQueue(t, im, settings{})
		q.AddAfter("a", time.Second)
		q.AddAfter("b", time.Second+1)
		synctest.Wait()
		q.Add("a")
		q.AddAfter("b", 0)
		got(t, q, "a", "b")
		q.Done("a")
		q.Done("b")
		time.Sleep(2 * time.Second)
		length(t, q, 2)
		got(t, q, "a", "b")
	})

	// A quirk, fixed: no program can rely on the order of a heap.
	onBoth(t, "25: items due at one instant come in the order of their adds", func(t *testing.T, im implementation) {
		q := newQueue(t, im, settings{})
		at := time.Now().Add(time.Second)
		for _, item := range []string{"a", "b", "c", "d", "e", "f"} {
			q.AddAfter(item, time.Until(at))
		}
		time.Sleep(2 * time.Second)
		length(t, q, 6)
		got(t, q, differs(im, []string{"a", "b", "c", "d", "e", "f"}, []string{"a", "f", "e", "d", "c", "b"})...)
	})

	onBoth(t, "26: a shutdown drops delayed items, and later AddAfters", func(t *testing.T, im implementation) {
		for _, shutDown := range []func(workqueue.TypedInterface[string]){
			workqueue.TypedInterface[string].ShutDown, workqueue.TypedInterface[string].ShutDownWithDrain,
		} {
			q := newQueue(t, im, settings{})
			q.AddAfter("waits", time.Minute)
			synctest.Wait()
			shutDown(q)
			q.AddAfter("late", time.Second)
			q.AddAfter("now", 0)
			time.Sleep(time.Hour)
			length(t, q, 0)
			ended(t, q)
		}
	})

	// Fixed: no program can want AddAfter to block, since a handler may call it.
	onBoth(t, "27: AddAfter does not block", func(t *testing.T, im implementation) {
		beneath := &gated{TypedInterface: im.queue(settings{}), gate: make(chan struct{})}
		q := newQueue(t, im, settings{beneath: beneath})
		q.AddAfter("first", time.Second)
		time.Sleep(2 * time.Second) // The waiting loop is in Add now.
		returned := background(func() {
			for i := range 1001 {
				q.AddAfter(fmt.Sprint(i), time.Hour)
			}
		})
		if got, want := returned(), differs(im, true, false); got != want {
			t.Errorf("AddAfter returned %v, want %v", got, want)
		}
		close(beneath.gate)
		returned()
	})

	onBoth(t, "27: ShutDown ends an AddAfter that blocks", func(t *testing.T, im implementation) {
		beneath := &gated{TypedInterface: im.queue(settings{}), gate: make(chan struct{})}
		q := im.delaying(settings{beneath: beneath})
		q.AddAfter("first", time.Second)
		time.Sleep(2 * time.Second)
		returned := background(func() {
			for i := range 1001 {
				q.AddAfter(fmt.Sprint(i), time.Hour)
			}
		})
		returned()
		down := background(q.ShutDown)
		if !returned() {
			t.Error("AddAfter still blocks after ShutDown")
		}
		close(beneath.gate)
		if !down() {
			t.Error("ShutDown did not return")
		}
	})

	onBoth(t, "28: a lost timer makes an item late by 10 s at most", func(t *testing.T, im implementation) {
		live := &liveClock{dead: true}
		q := newQueue(t, im, settings{clock: live})
		start := time.Now()
		q.AddAfter("a", 3*time.Second)
		got, _ := q.Get()
		if d := time.Since(start); got != "a" || d > 13*time.Second {
			t.Errorf("%s came after %v, want at most 13s", got, d)
		}
	})

	onBoth(t, "29: only the head has a timer", func(t *testing.T, im implementation) {
		live := &liveClock{}
		q := newQueue(t, im, settings{clock: live})
		for i := range 20 {
			q.AddAfter(fmt.Sprint(i), time.Hour-time.Duration(i)*time.Minute) // Each is a new head.
			synctest.Wait()
			if n := live.timers.Load(); n != 1 {
				t.Fatalf("%d timers live with %d items delayed", n, i+1)
			}
		}
		timers := live.made.Load()
		q.AddAfter("later", 2*time.Hour)
		synctest.Wait()
		if im.ours && live.made.Load() != timers {
			t.Error("an item that is not the head created a timer")
		}
	})

	onBoth(t, "30: retries counts each AddAfter before the shutdown", func(t *testing.T, im implementation) {
		metrics := &recorded{}
		q := newQueue(t, im, settings{name: "q", metrics: metrics})
		q.AddAfter("a", time.Second)
		q.AddAfter("a", time.Second)
		q.AddAfter("a", 0)
		q.AddAfter("b", -1)
		q.Add("c")
		q.ShutDown()
		q.AddAfter("a", time.Second)
		q.AddAfter("a", 0)
		if n := metrics.retries.get(); n != 4 {
			t.Errorf("%v retries, want 4", n)
		}
	})

	// A quirk, fixed: the base queue's ShutDown acts each time, so this one does too.
	onBoth(t, "31: a second ShutDown releases a drain begun after the first", func(t *testing.T, im implementation) {
		q := newQueue(t, im, settings{})
		q.Add("held")
		got(t, q, "held")
		q.ShutDown()
		drained := background(q.ShutDownWithDrain)
		if drained() {
			t.Fatal("the drain did not wait")
		}
		q.ShutDown()
		if got, want := drained(), differs(im, true, false); got != want {
			t.Errorf("the drain ended %v, want %v", got, want)
		}
		q.Done("held")
		if !drained() {
			t.Error("the drain did not end with the last item")
		}
	})

	// A quirk, fixed: a goroutine that outlives its queue is useless.
	onBoth(t, "32: a drain ends the waiting loop too", func(t *testing.T, im implementation) {
		live := &liveClock{}
		q := newQueue(t, im, settings{clock: live})
		q.AddAfter("a", time.Hour)
		synctest.Wait()
		q.ShutDownWithDrain()
		synctest.Wait()
		if n, want := live.timers.Load(), differs(im, int32(0), 1); n != want {
			t.Errorf("%d timers live after the drain, want %d", n, want)
		}
	})

	onBoth(t, "33: options; an injected queue has its own metrics", func(t *testing.T, im implementation) {
		own, delaying := &recorded{}, &recorded{}
		q := newQueue(t, im, settings{
			name: "delaying", metrics: delaying, beneath: im.queue(settings{name: "own", metrics: own}),
		})
		q.AddAfter("a", 0)
		q.AddAfter("b", 0)
		if own.adds.get() != 2 || own.retries.get() != 0 || delaying.adds.get() != 0 || delaying.retries.get() != 2 {
			t.Errorf("own metrics: %v\nthe delaying queue's: %v", own, delaying)
		}
		q.ShutDown()
		if !slices.Equal(delaying.made, []string{"retries delaying"}) {
			t.Errorf("the delaying queue made %q", delaying.made)
		}
	})
}

// TestLoggerIsOfKlogsType checks that the type of Logger is client-go's, which is an alias (33).
func TestLoggerIsOfKlogsType(t *testing.T) {
	ours := reflect.TypeOf(workqueue.TypedDelayingQueueConfig[string]{}.Logger)
	theirs := reflect.TypeOf(upstream.TypedDelayingQueueConfig[string]{}.Logger)
	if ours != theirs {
		t.Errorf("Logger is a %v, client-go's a %v", ours, theirs)
	}
}

// TestDelayingQueueNoticesThatTheQueueBeneathIsDown checks that if the underlying queue is shut
// down separately, the delaying queue's goroutine ends too, at its next wake-up, as with client-go.
func TestDelayingQueueNoticesThatTheQueueBeneathIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		beneath := workqueue.NewTyped[string]()
		live := &liveClock{}
		q := workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[string]{Queue: beneath, Clock: live})
		q.AddAfter("a", 1000*time.Hour)
		synctest.Wait()
		beneath.ShutDown()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := live.tickers.Load() + live.timers.Load(); n != 0 {
			t.Errorf("%d tickers and timers live", n)
		}
	})
}
