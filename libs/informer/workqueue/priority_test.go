package workqueue_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

func prioritized(config workqueue.TypedPriorityQueueConfig[string]) workqueue.TypedPriorityInterface[string] {
	return workqueue.NewTypedPriorityQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[string](time.Second, time.Hour), config)
}

// handOut gets and finishes all queued items, and returns them with their priorities.
func handOut(t *testing.T, q workqueue.TypedPriorityInterface[string]) (got []string) {
	t.Helper()
	for q.Len() > 0 {
		item, priority, shutdown := q.GetWithPriority()
		if shutdown {
			t.Fatal("Get reports a shutdown although an item is queued")
		}
		got = append(got, fmt.Sprint(item, priority))
		q.Done(item)
	}
	return got
}

// TestPriorityQueue checks what is handed out, and with which priority (checklist 155).
func TestPriorityQueue(t *testing.T) {
	type queue = workqueue.TypedPriorityInterface[string]
	at := func(q queue, priority int, items ...string) {
		q.AddWithOpts(workqueue.AddOpts{Priority: priority}, items...)
	}
	for _, tt := range []struct {
		name string
		do   func(q queue)
		want []string
	}{
		{"highest first, first in first out inside", func(q queue) {
			at(q, 0, "a", "b")
			at(q, workqueue.LowPriority, "c", "d")
			at(q, 9, "e", "f")
			q.Add("g")
		}, []string{"e9", "f9", "a0", "b0", "g0", "c-100", "d-100"}},
		{"a re-add takes the maximum, and a raised key the end of its new level", func(q queue) {
			at(q, 0, "a")
			at(q, workqueue.LowPriority, "b", "c", "d")
			at(q, 0, "c")
			at(q, workqueue.LowPriority, "a", "c")
			at(q, 0, "b", "a")
		}, []string{"a0", "c0", "b0", "d-100"}},
		{"the earliest time", func(q queue) {
			q.AddWithOpts(workqueue.AddOpts{After: 3 * time.Second, Priority: 1}, "a")
			q.AddWithOpts(workqueue.AddOpts{After: time.Second}, "a", "b")
			q.AddWithOpts(workqueue.AddOpts{After: 2 * time.Second}, "a", "b")
			time.Sleep(time.Second)
			synctest.Wait()
		}, []string{"a1", "b0"}},
		{"a queued key is not delayed, nor does it come again", func(q queue) {
			q.Add("a")
			q.AddAfter("a", time.Second)
			q.AddWithOpts(workqueue.AddOpts{After: time.Second, Priority: 2}, "a")
			q.AddAfterIfAbsent("a", time.Second)
			q.ReplaceAfter("a", time.Second)
			if n := q.Delayed(); n != 0 {
				t.Errorf("%d keys are delayed", n)
			}
		}, []string{"a2"}},
		{"a key that waits and is added at once does not come again", func(q queue) {
			q.AddWithOpts(workqueue.AddOpts{After: time.Second, Priority: 3}, "a")
			q.Add("b")
			q.Add("a")
			time.Sleep(time.Minute)
			synctest.Wait()
		}, []string{"a3", "b0"}},
		{"the shorter of After and the limiter's delay", func(q queue) {
			q.AddWithOpts(workqueue.AddOpts{After: time.Hour, RateLimited: true}, "a")
			q.AddWithOpts(workqueue.AddOpts{After: time.Millisecond, RateLimited: true}, "b")
			time.Sleep(time.Second)
			synctest.Wait()
		}, []string{"b0", "a0"}},
		{"a cancelled key has no priority any more", func(q queue) {
			q.AddWithOpts(workqueue.AddOpts{After: time.Second, Priority: 5}, "a")
			if !q.CancelAfter("a") || q.CancelAfter("a") {
				t.Error("CancelAfter did not report whether the key waited")
			}
			q.Add("a")
		}, []string{"a0"}},
		{"replaced", func(q queue) {
			q.AddWithOpts(workqueue.AddOpts{After: time.Second, Priority: 5}, "a", "b")
			if !q.ReplaceAfter("a", time.Hour) || q.AddAfterIfAbsent("b", 0) {
				t.Error("ReplaceAfter and AddAfterIfAbsent did not report what they did")
			}
			time.Sleep(time.Second)
			synctest.Wait()
			q.CancelAfter("a")
		}, []string{"b5"}},
		{"a key a worker has, added again, is queued after Done", func(q queue) {
			at(q, 5, "a")
			item, _ := q.Get()
			at(q, workqueue.LowPriority, "a")
			at(q, 1, "a")
			q.AddAfter("a", time.Second)
			at(q, 1, "b")
			if n := q.Len(); n != 1 {
				t.Errorf("Len is %d although a worker has the key", n)
			}
			q.Done(item)
		}, []string{"b1", "a1"}},
		{"retries", func(q queue) {
			q.AddRateLimited("a")
			q.AddRateLimited("a")
			if n := q.NumRequeues("a"); n != 2 {
				t.Errorf("NumRequeues is %d, want 2", n)
			}
			q.Forget("a")
			if n := q.NumRequeues("a"); n != 0 {
				t.Errorf("NumRequeues is %d after Forget", n)
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}, []string{"a0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := prioritized(workqueue.TypedPriorityQueueConfig[string]{})
				tt.do(q)
				if got := handOut(t, q); !slices.Equal(got, tt.want) {
					t.Errorf("handed out %v, want %v", got, tt.want)
				}
				q.ShutDown()
			})
		})
	}
}

// TestPriorityQueueShutsDown checks that the shutdowns are the work queue's (items 7 to 9;
// checklist 157, mended).
func TestPriorityQueueShutsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := prioritized(workqueue.TypedPriorityQueueConfig[string]{})
		q.AddWithOpts(workqueue.AddOpts{Priority: 1}, "held", "queued")
		q.AddAfter("delayed", time.Second)
		held, _ := q.Get()
		returned := background(q.ShutDownWithDrain)
		if returned() {
			t.Fatal("a drain did not wait for a worker")
		}
		q.AddWithOpts(workqueue.AddOpts{Priority: 5}, "late", "queued")
		q.Add("late")
		q.AddRateLimited("late")
		if n := q.NumRequeues("late"); n != 0 {
			t.Errorf("the limiter was asked about a key that is refused: %d", n)
		}
		if got := handOut(t, q); !slices.Equal(got, []string{"queued1"}) {
			t.Errorf("after the shutdown came %v", got)
		}
		ended(t, q)
		q.Done(held)
		if !returned() {
			t.Error("the drain did not end with the last worker")
		}
		q.ShutDown()
		q.ShutDown()
		q.ShutDownWithDrain()
	})
}

// TestPriorityQueueShutDownEndsGet checks that blocked Gets end with a shutdown.
func TestPriorityQueueShutDownEndsGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := prioritized(workqueue.TypedPriorityQueueConfig[string]{})
		returned := background(func() {
			if item, priority, shutdown := q.GetWithPriority(); item != "" || priority != 0 || !shutdown {
				t.Errorf("Get returned %q, %d, %v", item, priority, shutdown)
			}
		})
		if returned() {
			t.Fatal("Get did not block")
		}
		q.ShutDown()
		if !returned() {
			t.Error("Get did not return")
		}
	})
}

// TestPriorityQueueDrains checks that a drain hands out queued and delayed items, by priority.
func TestPriorityQueueDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := prioritized(workqueue.TypedPriorityQueueConfig[string]{})
		q.AddWithOpts(workqueue.AddOpts{After: time.Hour, Priority: 7}, "delayed")
		q.AddWithOpts(workqueue.AddOpts{Priority: workqueue.LowPriority}, "low")
		q.Add("normal")
		var failed error
		returned := background(func() { failed = q.Drain(t.Context(), workqueue.HandOutDelayed) })
		if returned() {
			t.Fatalf("the drain did not wait: %v", failed)
		}
		if got, want := handOut(t, q), []string{"delayed7", "normal0", "low-100"}; !slices.Equal(got, want) {
			t.Errorf("the drain handed out %v, want %v", got, want)
		}
		if !returned() || failed != nil {
			t.Errorf("the drain did not end, or failed: %v", failed)
		}
	})
}

// levelsOf counts the depth of each priority.
type levelsOf struct {
	recorded
	mu     sync.Mutex
	levels map[int]int
}

func (l *levelsOf) NewDepthMetricWithPriority(string) workqueue.DepthMetricWithPriority { return l }
func (l *levelsOf) Inc(priority int)                                                    { l.change(priority, 1) }
func (l *levelsOf) Dec(priority int)                                                    { l.change(priority, -1) }

func (l *levelsOf) change(priority, by int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.levels == nil {
		l.levels = map[int]int{}
	}
	if l.levels[priority] += by; l.levels[priority] == 0 {
		delete(l.levels, priority)
	}
}

// TestPriorityQueueMetrics checks the depth of each priority: of raised keys, also while a worker
// has them, and of keys that fall due (checklist 155).
func TestPriorityQueueMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metrics := &levelsOf{}
		q := prioritized(workqueue.TypedPriorityQueueConfig[string]{Name: "q", MetricsProvider: metrics})
		depth := func(want string) {
			t.Helper()
			synctest.Wait()
			metrics.mu.Lock()
			defer metrics.mu.Unlock()
			if got := fmt.Sprint(metrics.levels); got != want {
				t.Errorf("the depth is %s, want %s", got, want)
			}
		}
		q.AddWithOpts(workqueue.AddOpts{Priority: workqueue.LowPriority}, "a", "b")
		q.AddWithOpts(workqueue.AddOpts{After: time.Second, Priority: 3}, "c")
		depth("map[-100:2]")
		q.Add("a")
		depth("map[-100:1 0:1]")
		item, _ := q.Get()
		depth("map[-100:1]")
		q.AddWithOpts(workqueue.AddOpts{Priority: 2}, item)
		q.AddWithOpts(workqueue.AddOpts{Priority: 4}, item)
		depth("map[-100:1 4:1]")
		time.Sleep(time.Second)
		depth("map[-100:1 3:1 4:1]")
		q.Done(item)
		handOut(t, q)
		depth("map[]")
		if adds, retries, got := metrics.adds.get(), metrics.retries.get(), metrics.latency.String(); adds != 4 || retries != 1 || got[:2] != "4/" {
			t.Errorf("adds %v, retries %v, latency %s", adds, retries, got)
		}
		if slices.Contains(metrics.made, "depth q") {
			t.Error("the depth without priorities was made as well")
		}
		q.ShutDown()
	})
}

// TestPriorityQueueUnderLoad runs many workers and many adders. No key is with two workers, and
// each key is handed out after its last add.
func TestPriorityQueueUnderLoad(t *testing.T) {
	q := workqueue.NewTypedPriorityQueue[int](nil, workqueue.TypedPriorityQueueConfig[int]{})
	const keys, adds = 50, 4000
	var wanted, done [keys]atomic.Int64
	var held [keys]atomic.Bool
	var workers, adders sync.WaitGroup
	for range 4 {
		workers.Go(func() {
			for {
				key, _, shutdown := q.GetWithPriority()
				if shutdown {
					return
				}
				if held[key].Swap(true) {
					t.Errorf("key %d is with two workers", key)
				}
				done[key].Store(wanted[key].Load())
				held[key].Store(false)
				q.Done(key)
			}
		})
	}
	for a := range 4 {
		adders.Go(func() {
			for i := range adds {
				key := (i*7 + a) % keys
				wanted[key].Add(1)
				q.AddWithOpts(workqueue.AddOpts{Priority: i % 3, After: time.Duration(i%5) * time.Microsecond}, key)
			}
		})
	}
	adders.Wait()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := q.Drain(ctx, workqueue.WaitForDelayed); err != nil {
		t.Error(err)
	}
	workers.Wait()
	for key := range keys {
		if w, d := wanted[key].Load(), done[key].Load(); w != d {
			t.Errorf("key %d: %d adds were made, %d were seen", key, w, d)
		}
	}
}

// TestPriorityQueueDoesNotAllocate checks that Add, Get and Done do not allocate on the steady
// path.
func TestPriorityQueueDoesNotAllocate(t *testing.T) {
	q := workqueue.NewTypedPriorityQueue[int](nil, workqueue.TypedPriorityQueueConfig[int]{})
	defer q.ShutDown()
	for key := range 100 {
		q.Add(key)
	}
	key := 100
	if n := testing.AllocsPerRun(1000, func() {
		q.Add(key % 200)
		key++
		item, _, _ := q.GetWithPriority()
		q.Done(item)
	}); n >= 1 {
		t.Errorf("%v allocations for each key", n)
	}
}
