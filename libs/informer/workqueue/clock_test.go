package workqueue_test

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// TestClockIsAskedFromTheFirstGetOn checks that the queue does not use its clock before a worker
// has an item. Client-go requests a ticker when a queue is created, and two of its tests wait for
// that.
func TestClockIsAskedFromTheFirstGetOn(t *testing.T) {
	clock := testingclock.NewFakeClock(time.Unix(0, 0))
	q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: &recorded{}, Clock: clock})
	if clock.HasWaiters() {
		t.Error("a new queue waits for its clock")
	}
	q.Add("a")
	if clock.HasWaiters() {
		t.Error("a queue before its first Get waits for its clock")
	}
	if item, _ := q.Get(); item != "a" || !clock.HasWaiters() {
		t.Errorf("a worker has %q, and the clock is waited for: %v", item, clock.HasWaiters())
	}
	q.Done("a")
	q.ShutDown()
	if clock.HasWaiters() {
		t.Error("a queue that was shut down waits for its clock")
	}
}
