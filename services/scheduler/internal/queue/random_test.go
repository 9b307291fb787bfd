package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/scheduler/internal/placement"
	"github.com/garboard/garboard/services/scheduler/internal/queue"
)

// TestMoveThose checks that a change for some pods wakes only those, also if it comes while they
// are out.
func TestMoveThose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New()
		claims := []placement.Filter{placement.VolumeBinding}
		isA := func(pod *corev1.Pod) bool { return pod.Name == "a" }
		for _, name := range []string{"a", "b"} {
			q.Set(pod(name, 0), true)
			q.Unschedulable(pop(t, q, name, 0), claims)
		}
		<-time.After(time.Minute)
		q.MoveThose(isA, placement.NodePorts)
		counts(t, q, queue.Counts{Unschedulable: 2})
		q.MoveThose(isA, placement.VolumeBinding)
		counts(t, q, queue.Counts{Active: 1, Unschedulable: 1})
		a := pop(t, q, "a", 0)
		q.Set(pod("b", 0), true)
		b := pop(t, q, "b", 0)
		q.MoveThose(isA, placement.VolumeBinding)
		q.Unschedulable(a, claims)
		q.Unschedulable(b, claims)
		counts(t, q, queue.Counts{BackingOff: 1, Unschedulable: 1})
	})
}

// TestChangeWhileOut checks that a pod that changes while it is tried is tried again after its
// back-off, but not for the change of another pod that it has seen already.
func TestChangeWhileOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New()
		q.Set(pod("p", 0), true)
		item := pop(t, q, "p", 0)
		q.Set(pod("p", 7), true)
		q.Unschedulable(item, []placement.Filter{placement.NodePorts})
		if again := pop(t, q, "p", time.Second); *again.Pod.Spec.Priority != 7 || again.Attempts != 2 {
			t.Errorf("got %+v", again)
		} else {
			q.Unschedulable(again, []placement.Filter{placement.NodePorts})
		}
		counts(t, q, queue.Counts{Unschedulable: 1})
	})
}

// TestNoPodIsLost does random things to a queue, and checks it against a model: each pod that was
// set and not deleted is popped within the longest wait, none is popped twice at a time, and none
// that was deleted is popped.
func TestNoPodIsLost(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 2))
			q, wanted := queue.New(), map[string]bool{}
			out := map[string]queue.Item{}
			filters := []placement.Filter{placement.NodePorts, placement.VolumeBinding, placement.NodeResourcesFit}
			filter := func() placement.Filter { return filters[random.IntN(len(filters))] }
			take := func() bool {
				ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
				defer cancel()
				item, err := q.Pop(ctx)
				if err != nil {
					return false
				}
				name := item.Pod.Name
				if _, isOut := out[name]; isOut || !wanted[name] {
					t.Fatalf("seed %d: %s was popped; it is out: %t, and wanted: %t", seed, name, isOut, wanted[name])
				}
				out[name] = item
				return true
			}
			for range 60 {
				name := fmt.Sprint("p", random.IntN(6))
				item, isOut := out[name]
				switch random.IntN(7) {
				case 0, 1:
					q.Set(pod(name, int32(random.IntN(3))), random.IntN(2) == 0)
					wanted[name] = true
				case 2:
					q.Delete(pod(name, 0).UID)
					delete(wanted, name)
					delete(out, name)
				case 3:
					if len(wanted) > len(out) && !take() {
						t.Fatalf("seed %d: %d pods wait, and none came", seed, len(wanted)-len(out))
					}
				case 4:
					if isOut {
						q.Unschedulable(item, []placement.Filter{filter()})
						delete(out, name)
					}
				case 5:
					if isOut {
						q.Retry(item)
						delete(out, name)
					}
				case 6:
					q.Move(filter())
				}
				if c := q.Counts(); c.Active+c.BackingOff+c.Unschedulable != len(wanted)-len(out) {
					t.Fatalf("seed %d: %+v wait, want %d", seed, c, len(wanted)-len(out))
				}
			}
			for len(out) < len(wanted) {
				if !take() {
					t.Fatalf("seed %d: only %d of %d pods came", seed, len(out), len(wanted))
				}
			}
		})
	}
}

// TestMoveBeforePop checks that a pod is not tried again for a change that it has seen, although
// another pod, which is out for longer, has not.
func TestMoveBeforePop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New()
		ports := []placement.Filter{placement.NodePorts}
		q.Set(pod("slow", 1), true)
		slow := pop(t, q, "slow", 0)
		q.Move(placement.NodePorts)
		q.Set(pod("quick", 0), true)
		q.Unschedulable(pop(t, q, "quick", 0), ports)
		counts(t, q, queue.Counts{Unschedulable: 1})
		q.Unschedulable(slow, ports)
		counts(t, q, queue.Counts{BackingOff: 1, Unschedulable: 1})
	})
}

// TestPopSleepsNoLongerThanALimit checks that a Pop that waits already returns a pod that is given
// back as unschedulable meanwhile, when the longest wait has passed.
func TestPopSleepsNoLongerThanALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue.New()
		q.Set(pod("p", 0), true)
		item := pop(t, q, "p", 0)
		go func() {
			<-time.After(time.Second)
			q.Unschedulable(item, []placement.Filter{placement.NodePorts})
		}()
		pop(t, q, "p", 5*time.Minute+time.Second)
	})
}
