package workqueue_test

import (
	"sync"
	"testing"
	"time"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// both runs a benchmark on our queue and on client-go's.
func both(b *testing.B, run func(b *testing.B, q workqueue.TypedInterface[int])) {
	b.Run("ours", func(b *testing.B) { run(b, workqueue.NewTyped[int]()) })
	b.Run("client-go", func(b *testing.B) { run(b, upstream.NewTyped[int]()) })
}

// One goroutine adds, gets and finishes one key.
func BenchmarkAddGetDone(b *testing.B) {
	both(b, func(b *testing.B, q workqueue.TypedInterface[int]) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			q.Add(i & 1023)
			key, _ := q.Get()
			q.Done(key)
		}
	})
}

// Eight goroutines add, get and finish keys at once.
func BenchmarkContended(b *testing.B) {
	both(b, func(b *testing.B, q workqueue.TypedInterface[int]) {
		b.ReportAllocs()
		var workers sync.WaitGroup
		for range 8 {
			workers.Go(func() {
				for {
					key, shutdown := q.Get()
					if shutdown {
						return
					}
					q.Done(key)
				}
			})
		}
		for i := 0; b.Loop(); i++ {
			q.Add(i & 1023)
		}
		q.ShutDown()
		workers.Wait()
	})
}

// A hundred thousand keys are delayed.
func BenchmarkAddAfter(b *testing.B) {
	run := func(b *testing.B, make func() workqueue.TypedDelayingInterface[int]) {
		b.ReportAllocs()
		for b.Loop() {
			q := make()
			for i := range 100_000 {
				q.AddAfter(i, time.Hour+time.Duration(i*7919%100_000))
			}
			q.ShutDown()
		}
	}
	b.Run("ours", func(b *testing.B) {
		run(b, func() workqueue.TypedDelayingInterface[int] { return workqueue.NewTypedDelayingQueue[int]() })
	})
	b.Run("client-go", func(b *testing.B) {
		run(b, func() workqueue.TypedDelayingInterface[int] { return upstream.NewTypedDelayingQueue[int]() })
	})
}
