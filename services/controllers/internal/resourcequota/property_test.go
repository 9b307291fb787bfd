package resourcequota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// crowd is a set of clients of an API that charges a quota of pods as the apiserver does. The
// charge comes first; within a minute follows the pod, or nothing.
type crowd struct {
	*controltest.Plane
	t    *testing.T
	hard int

	mu      sync.Mutex
	random  *rand.Rand
	created int
	refused int
}

func (c *crowd) intn(n int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.random.IntN(n)
}

// pause mostly waits for a moment, and seldom for very long.
func (c *crowd) pause() {
	switch c.intn(10) {
	case 0:
		time.Sleep(time.Duration(c.intn(50)) * time.Second)
	case 1, 2:
		time.Sleep(time.Duration(c.intn(500)) * time.Millisecond)
	default:
		time.Sleep(time.Duration(c.intn(10)) * time.Millisecond)
	}
}

// one is one client that creates and deletes pods.
func (c *crowd) one(id, times int) {
	pods := client.Of[*corev1.Pod](c.Client)
	var mine []string
	for i := range times {
		if len(mine) > 0 && c.intn(2) == 0 {
			last := mine[len(mine)-1]
			mine = mine[:len(mine)-1]
			if c.intn(3) == 0 {
				controltest.SetStatus(c.Plane, "ns", last, func(pod *corev1.Pod) { pod.Status.Phase = corev1.PodSucceeded })
			} else {
				c.Remove(pod(last, ""))
			}
			continue
		}
		if !charge(c.Plane, "pods=1 requests.cpu=1") {
			c.mu.Lock()
			c.refused++
			c.mu.Unlock()
			time.Sleep(time.Duration(c.intn(10)) * time.Second)
			continue
		}
		c.pause()
		switch c.intn(12) {
		case 0: // The pod is refused after all, and its charge is given back.
			charge(c.Plane, "pods=-1 requests.cpu=-1")
			continue
		case 1: // The apiserver died.
			continue
		}
		name := fmt.Sprintf("p-%d-%d", id, i)
		if _, err := pods.Create(c.t.Context(), pod(name, "cpu=1"), metav1.CreateOptions{}); err != nil {
			c.t.Errorf("creating %s: %v", name, err)
			return
		}
		c.check()
		mine = append(mine, name)
	}
}

// check fails the test if there are more pods than the quota allows.
func (c *crowd) check() {
	active := 0
	for _, pod := range controltest.List[*corev1.Pod](c.Plane) {
		if !strings.HasPrefix(string(pod.Status.Phase), "Succ") {
			active++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.created++
	if active > c.hard {
		c.t.Errorf("got %d pods, want at most %d", active, c.hard)
	}
}

// TestNeverMorePodsThanAllowed lets many clients create and delete pods under a quota, while
// informers lag, writes fail, and successful writes are answered with errors. When the clients have
// ended, the quota must show the exact usage.
func TestNeverMorePodsThanAllowed(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				random := rand.New(rand.NewPCG(seed, 4))
				late := []string{"", "Pod", "ResourceQuota"}[seed%3]
				p := start(t, controltest.NewLate(t, late, time.Duration(random.IntN(300))*time.Millisecond))
				controltest.Create(p, limit("pods=6 requests.cpu=7"))
				expect(t, p, "at first", "pods=0 requests.cpu=0")
				c := &crowd{Plane: p, t: t, hard: 6, random: random}
				if seed%2 == 1 {
					p.Fail(c.lose)
				}
				var wg sync.WaitGroup
				for id := range 8 {
					wg.Go(func() { c.one(id, 25) })
				}
				wg.Wait()
				p.Fail(nil)
				time.Sleep(resyncPeriod + 2*settleTime)
				synctest.Wait()
				active := 0
				for _, pod := range controltest.List[*corev1.Pod](p) {
					if pod.Status.Phase == corev1.PodPending {
						active++
					}
				}
				expect(t, p, "in the end", fmt.Sprintf("pods=%d requests.cpu=%d", active, active))
				if c.created < 5 || c.refused == 0 {
					t.Errorf("got %d pods created and %d refused, want some of each", c.created, c.refused)
				}
			})
		})
	}
}

// lose makes some status writes fail, and answers others with an error although they succeeded.
func (c *crowd) lose(call client.Call) error {
	q, ok := call.Body.(*corev1.ResourceQuota)
	if !ok || call.Subresource != "status" {
		return nil
	}
	switch c.intn(12) {
	case 0:
		return apierrors.NewInternalError(errors.New("not done"))
	case 1:
		call.Body, call.Revision = q.DeepCopy(), nil
		c.mu.Lock()
		again := c.random.IntN(2)
		c.mu.Unlock()
		if again == 0 {
			return nil
		}
		// The client charges again after an error, as if it were a conflict; that leaves a charge
		// without an object.
		_ = c.Do(c.t.Context(), call, nil)
		return apierrors.NewInternalError(errors.New("done, and the answer was lost"))
	}
	return nil
}
