// Package workqueue_test compares Garboard's work queue with client-go's, with the same workload on
// both: use `benchstat -col /impl`.
package workqueue_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	upstream "k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// key is the type that most controllers queue.
type key string

// keys returns n namespace/name keys.
func keys(n int) []key {
	made := make([]key, n)
	for i := range made {
		made[i] = key("namespace-" + digits(i%97) + "/deployment-" + digits(i))
	}
	return made
}

func digits(n int) string {
	d := [7]byte{}
	for i := range d {
		d[len(d)-1-i] = byte('0' + n%10)
		n /= 10
	}
	return string(d[:])
}

// onBoth runs a benchmark on a queue of each implementation.
func onBoth(b *testing.B, run func(b *testing.B, newQueue func() workqueue.TypedInterface[key])) {
	b.Helper()
	b.Run("impl=garboard", func(b *testing.B) {
		run(b, func() workqueue.TypedInterface[key] { return workqueue.NewTyped[key]() })
	})
	b.Run("impl=client-go", func(b *testing.B) {
		run(b, func() workqueue.TypedInterface[key] { return upstream.NewTyped[key]() })
	})
}

// BenchmarkUncontended measures one goroutine that adds, gets and finishes keys of a thousand, one
// at a time.
func BenchmarkUncontended(b *testing.B) {
	thousand := keys(1000)
	onBoth(b, func(b *testing.B, newQueue func() workqueue.TypedInterface[key]) {
		q := newQueue()
		defer q.ShutDown()
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			q.Add(thousand[i%len(thousand)])
			k, _ := q.Get()
			q.Done(k)
		}
	})
}

// BenchmarkEightGoroutines measures eight goroutines that get a key, add it again while they hold
// it, and finish it, so that a thousand keys circulate.
func BenchmarkEightGoroutines(b *testing.B) {
	thousand := keys(1000)
	onBoth(b, func(b *testing.B, newQueue func() workqueue.TypedInterface[key]) {
		q := newQueue()
		defer q.ShutDown()
		for _, k := range thousand {
			q.Add(k)
		}
		b.ReportAllocs()
		b.ResetTimer()
		var workers sync.WaitGroup
		for worker := range 8 {
			workers.Go(func() {
				for range (b.N + worker) / 8 {
					k, _ := q.Get()
					q.Add(k)
					q.Done(k)
				}
			})
		}
		workers.Wait()
	})
}

// BenchmarkFourProducersFourWorkers measures four goroutines that add keys of a thousand, and four
// that get and finish them, often waiting for one.
func BenchmarkFourProducersFourWorkers(b *testing.B) {
	thousand := keys(1000)
	onBoth(b, func(b *testing.B, newQueue func() workqueue.TypedInterface[key]) {
		q := newQueue()
		b.ReportAllocs()
		b.ResetTimer()
		var producers, workers sync.WaitGroup
		for n := range 4 {
			producers.Go(func() {
				for i := range (b.N + n) / 4 {
					q.Add(thousand[(n*250+i)%len(thousand)])
				}
			})
			workers.Go(func() {
				for {
					k, shutdown := q.Get()
					if shutdown {
						return
					}
					q.Done(k)
				}
			})
		}
		producers.Wait()
		q.ShutDown()
		workers.Wait()
	})
}

// BenchmarkMillionKeys measures a new queue to which a million different keys are added, and which
// are then got and finished, as after a first list.
func BenchmarkMillionKeys(b *testing.B) {
	million := keys(1_000_000)
	onBoth(b, func(b *testing.B, newQueue func() workqueue.TypedInterface[key]) {
		b.ReportAllocs()
		for b.Loop() {
			q := newQueue()
			for _, k := range million {
				q.Add(k)
			}
			for range million {
				k, _ := q.Get()
				q.Done(k)
			}
			q.ShutDown()
		}
	})
}

// BenchmarkDelayedAdds measures a hundred thousand keys that are added with delays in random order,
// become due at once, and are got and finished. It uses a fake clock, so that work is measured and
// not waiting.
func BenchmarkDelayedAdds(b *testing.B) {
	hundredThousand := keys(100_000)
	run := func(b *testing.B, newQueue func(clock.WithTicker) workqueue.TypedDelayingInterface[key]) {
		b.ReportAllocs()
		for b.Loop() {
			c := &countingClock{FakeClock: testclock.NewFakeClock(time.Unix(0, 0))}
			q := newQueue(c)
			for i, k := range hundredThousand {
				q.AddAfter(k, time.Minute+time.Duration(i*7919%100_000)*time.Millisecond)
			}
			// Client-go's queue passes keys to a goroutine, which reads the clock once for each.
			// Wait until all are on its heap before time advances.
			if _, ok := q.(workqueue.TypedScheduler[key]); !ok {
				for c.asked.Load() < int64(2*len(hundredThousand)) {
					runtime.Gosched()
				}
			}
			c.Step(time.Hour)
			for range hundredThousand {
				k, _ := q.Get()
				q.Done(k)
			}
			q.ShutDown()
		}
	}
	b.Run("impl=garboard", func(b *testing.B) {
		run(b, func(c clock.WithTicker) workqueue.TypedDelayingInterface[key] {
			return workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[key]{Clock: c})
		})
	})
	b.Run("impl=client-go", func(b *testing.B) {
		run(b, func(c clock.WithTicker) workqueue.TypedDelayingInterface[key] {
			return upstream.NewTypedDelayingQueueWithConfig(upstream.TypedDelayingQueueConfig[key]{Clock: c})
		})
	})
}

// countingClock counts how often the time is read.
type countingClock struct {
	*testclock.FakeClock
	asked atomic.Int64
}

func (c *countingClock) Now() time.Time {
	c.asked.Add(1)
	return c.FakeClock.Now()
}

// BenchmarkRetry measures a key that fails, waits for a back-off of almost nothing, and is got
// again.
func BenchmarkRetry(b *testing.B) {
	run := func(b *testing.B, q workqueue.TypedRateLimitingInterface[key]) {
		defer q.ShutDown()
		b.ReportAllocs()
		for b.Loop() {
			q.AddRateLimited("namespace/name")
			k, _ := q.Get()
			q.Forget(k)
			q.Done(k)
		}
	}
	b.Run("impl=garboard", func(b *testing.B) {
		run(b, workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[key](1, 1)))
	})
	b.Run("impl=client-go", func(b *testing.B) {
		run(b, upstream.NewTypedRateLimitingQueue(upstream.NewTypedItemExponentialFailureRateLimiter[key](1, 1)))
	})
}
