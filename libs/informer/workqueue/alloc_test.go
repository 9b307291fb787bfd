package workqueue_test

import (
	"testing"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// TestSteadyPathDoesNotAllocate checks that Add, Get and Done allocate nothing once there is memory
// for the largest number of items so far. That holds with metrics or without, for repeated and for
// new keys.
func TestSteadyPathDoesNotAllocate(t *testing.T) {
	named := workqueue.TypedQueueConfig[int]{Name: "q", MetricsProvider: &recorded{}}
	for _, tt := range []struct {
		name    string
		options workqueue.TypedQueueConfig[int]
		// key returns the key of the nth add.
		key func(n int) int
	}{
		{"repeated keys", workqueue.TypedQueueConfig[int]{}, func(n int) int { return n % 1000 }},
		{"new keys", workqueue.TypedQueueConfig[int]{}, func(n int) int { return n }},
		{"with metrics", named, func(n int) int { return n % 1000 }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := workqueue.NewTypedWithConfig(tt.options)
			defer q.ShutDown()
			n := 0
			round := func() {
				for range 50 {
					q.Add(tt.key(n))
					q.Add(tt.key(n)) // already queued
					n++
				}
				for range 50 {
					item, _ := q.Get()
					q.Add(item)
					q.Done(item)
				}
				for range 50 {
					item, _ := q.Get()
					q.Done(item)
				}
			}
			for range 100 {
				round()
			}
			if allocations := testing.AllocsPerRun(1000, round); allocations != 0 {
				t.Errorf("%v allocations a round of 150 items, want none", allocations)
			}
		})
	}
}

// TestSteadyDelaysDoNotAllocate checks that delayed adds and their cancelling allocate nothing
// either, while any item waits.
func TestSteadyDelaysDoNotAllocate(t *testing.T) {
	q := workqueue.NewTypedDelayingQueue[int]()
	defer q.ShutDown()
	scheduler := q.(workqueue.TypedScheduler[int])
	q.AddAfter(-1, time.Hour) // This is the head; its timer is not the subject.
	round := func() {
		for i := range 100 {
			q.AddAfter(i, 2*time.Hour+time.Duration(i*37%100))
			scheduler.ReplaceAfter(i, 3*time.Hour)
		}
		for i := range 100 {
			scheduler.CancelAfter(i)
		}
	}
	round()
	if allocations := testing.AllocsPerRun(1000, round); allocations != 0 {
		t.Errorf("%v allocations a round of 100 delayed adds, want none", allocations)
	}
}
