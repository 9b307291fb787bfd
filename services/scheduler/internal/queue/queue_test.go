package queue_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/scheduler/internal/placement"
	"github.com/garboard/garboard/services/scheduler/internal/queue"
)

func pod(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{Priority: &priority}}
}

// pop returns the next pod, and checks how long it took to come.
func pop(t *testing.T, q *queue.Queue, want string, after time.Duration) queue.Item {
	t.Helper()
	start := time.Now()
	item, err := q.Pop(t.Context())
	if err != nil || item.Pod.Name != want || time.Since(start) != after {
		t.Fatalf("got %v, %v from Pop after %v; want %s after %v", item.Pod, err, time.Since(start), want, after)
	}
	return item
}

func counts(t *testing.T, q *queue.Queue, want queue.Counts) {
	t.Helper()
	if got := q.Counts(); got != want {
		t.Errorf("got counts %+v, want %+v", got, want)
	}
}

func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New()
		q.Set(pod("first", 0), true)
		q.Set(pod("second", 0), true)
		q.Set(pod("urgent", 10), true)
		q.Set(pod("deleted", 20), true)
		q.Set(pod("raised", 0), true)
		q.Set(pod("raised", 5), true)
		q.Delete("deleted")
		for _, name := range []string{"urgent", "raised", "first", "second"} {
			pop(t, q, name, 0)
		}
		counts(t, q, queue.Counts{})
	})
}

func TestPopEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
		defer cancel()
		if _, err := queue.New().Pop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v from Pop", err)
		}
	})
}

func TestBackoffDoubles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New()
		q.Set(pod("p", 0), true)
		item := pop(t, q, "p", 0)
		for _, seconds := range []time.Duration{1, 2, 4, 8, 10, 10} {
			q.Retry(item)
			counts(t, q, queue.Counts{BackingOff: 1})
			item = pop(t, q, "p", seconds*time.Second)
		}
		if item.Attempts != 7 {
			t.Errorf("got %d attempts", item.Attempts)
		}
	})
}

// TestUnschedulable checks that an unschedulable pod waits for a change that may help it, but no
// longer than five minutes.
func TestUnschedulable(t *testing.T) {
	fit := []placement.Filter{placement.NodeResourcesFit}
	for _, tt := range []struct {
		name string
		do   func(q *queue.Queue)
		want time.Duration
	}{
		{"nothing happens", func(*queue.Queue) {}, 4 * time.Minute},
		{"something that may help", func(q *queue.Queue) { q.Move(placement.NodePorts, placement.NodeResourcesFit) }, 0},
		{"something that may help any", func(q *queue.Queue) { q.Move() }, 0},
		{"something that cannot help", func(q *queue.Queue) { q.Move(placement.InterPodAffinity) }, 4 * time.Minute},
		{"the pod changes", func(q *queue.Queue) { q.Set(pod("p", 0), true) }, 0},
		{"the pod's status changes", func(q *queue.Queue) { q.Set(pod("p", 0), false) }, 4 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := queue.New()
				q.Set(pod("p", 0), true)
				q.Unschedulable(pop(t, q, "p", 0), fit)
				counts(t, q, queue.Counts{Unschedulable: 1})
				time.Sleep(time.Minute)
				tt.do(q)
				pop(t, q, "p", tt.want)
			})
		})
	}
}

// TestMoveWhileOut checks that a change while a pod is being tried is not missed.
func TestMoveWhileOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			filter placement.Filter
			want   time.Duration
		}{{placement.NodeResourcesFit, time.Second}, {placement.InterPodAffinity, 5 * time.Minute}} {
			q := queue.New()
			q.Set(pod("p", 0), true)
			item := pop(t, q, "p", 0)
			q.Move(tt.filter)
			q.Unschedulable(item, []placement.Filter{placement.NodeResourcesFit})
			pop(t, q, "p", tt.want)
		}
	})
}

// TestChangeOfOneWhileOthersAreOut checks that a change of a pod that is being tried causes a retry of that pod
// alone.
func TestChangeOfOneWhileOthersAreOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New()
		q.Set(pod("changed", 0), true)
		changed := pop(t, q, "changed", 0)
		q.Set(pod("other", 0), true)
		other := pop(t, q, "other", 0)
		q.Set(pod("changed", 0), true)
		fit := []placement.Filter{placement.NodeResourcesFit}
		q.Unschedulable(other, fit)
		counts(t, q, queue.Counts{Unschedulable: 1})
		q.Unschedulable(changed, fit)
		counts(t, q, queue.Counts{Unschedulable: 1, BackingOff: 1})
		pop(t, q, "changed", time.Second)
	})
}

// TestMoveRespectsBackoff checks that a move during a pod's back-off takes effect at its end.
func TestMoveRespectsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New()
		q.Set(pod("p", 0), true)
		q.Unschedulable(pop(t, q, "p", 0), nil)
		time.Sleep(300 * time.Millisecond)
		q.Move()
		pop(t, q, "p", 700*time.Millisecond)
	})
}

// TestDeleteWhileOut checks that a pod deleted while it is out does not come back, and that a new
// one with the same name does.
func TestDeleteWhileOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New()
		for _, giveBack := range []func(queue.Item){
			q.Retry, func(item queue.Item) { q.Unschedulable(item, nil) },
		} {
			q.Set(pod("p", 0), true)
			item := pop(t, q, "p", 0)
			q.Delete("p")
			giveBack(item)
			counts(t, q, queue.Counts{})
		}
		q.Set(pod("p", 0), true)
		item := pop(t, q, "p", 0)
		q.Retry(item)
		q.Retry(item) // Given back twice.
		counts(t, q, queue.Counts{BackingOff: 1})
		q.Delete("p")
		counts(t, q, queue.Counts{})
	})
}
