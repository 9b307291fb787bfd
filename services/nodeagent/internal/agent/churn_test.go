package agent_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/agent"
	"github.com/garboard/garboard/test/containers/harness"
)

// TestPodsComeAndGo creates pods and deletes them at random moments, as early as before anything
// was done for them. All terminate, and nothing is left of any.
func TestPodsComeAndGo(t *testing.T) {
	t.Run("simulated", func(t *testing.T) {
		testChurn(t, newSimulatedMachine(t), churn{pods: 300, living: 40, lives: 6 * time.Second})
	})
	t.Run("containerd", func(t *testing.T) {
		testChurn(t, containerdMachine{harness.Start(t)}, churn{pods: 60, living: 8, lives: 10 * time.Second})
	})
}

// churn configures the number of pods, of concurrent pods, and the maximum lifetime of a pod.
type churn struct {
	pods, living int
	lives        time.Duration
}

func testChurn(t *testing.T, m machine, c churn) {
	if os.Getenv(podsVariable) != "" {
		c.pods = number(t, podsVariable)
	}
	seed := seedOf(t)
	t.Logf("%s=%d %s=%d: at most %d at once, each for at most %v", seedVariable, seed, podsVariable, c.pods, c.living, c.lives)
	w := newProxied(t, m)
	_, stop := w.startWith(func(cfg *agent.Config) { cfg.MaxPods = 2 * c.living })
	numbers := make(chan int)
	var gone, early atomic.Int64
	var slowest atomic.Int64
	began := time.Now()
	var wg sync.WaitGroup
	for range c.living {
		wg.Go(func() {
			for n := range numbers {
				chance := rand.New(rand.NewPCG(seed, uint64(n))) //nolint:gosec // a test repeats what it did
				ran, took := w.comeAndGo(n, chance, c.lives)
				if !ran {
					early.Add(1)
				}
				for old := slowest.Load(); int64(took) > old && !slowest.CompareAndSwap(old, int64(took)); old = slowest.Load() {
				}
				if done := gone.Add(1); done%max(1, int64(c.pods/20)) == 0 {
					t.Logf("%v: %d of %d pods are gone, %d before they were ready, the slowest took %v to end",
						time.Since(began).Round(time.Second), done, c.pods, early.Load(), time.Duration(slowest.Load()).Round(time.Millisecond))
				}
			}
		})
	}
	for n := range c.pods {
		numbers <- n
	}
	close(numbers)
	wg.Wait()
	w.eventually("nothing is left", w.leftovers)
	stop()
	if gone.Load() != int64(c.pods) {
		t.Errorf("%d of %d pods are gone", gone.Load(), c.pods)
	}
}

// comeAndGo runs the lifecycle of one pod. It reports whether the pod was ready before it was
// deleted, and how long its termination took.
func (w *proxied) comeAndGo(n int, chance *rand.Rand, lives time.Duration) (ran bool, took time.Duration) {
	name := fmt.Sprintf("pod-%d", n)
	pod := newPod(name)
	if chance.IntN(3) > 0 {
		pod = faultyPod(name)
	}
	pod.Spec.TerminationGracePeriodSeconds = new(int64(1 + chance.IntN(3)))
	if _, err := w.pods().Create(w.t.Context(), pod, metav1.CreateOptions{}); err != nil {
		w.t.Errorf("creating %s: %v", name, err)
		return false, 0
	}
	// Early moments are the most interesting ones.
	<-time.After(time.Duration(chance.Float64() * chance.Float64() * float64(lives)))
	if present := w.get(name); present != nil {
		ran = ready(present)
	}
	began := time.Now()
	for _, grace := range [][]*int64{{nil}, {nil}, {nil, new(int64(1))}, {nil, new(int64)}, {new(int64)}}[chance.IntN(5)] {
		err := w.pods().Delete(w.t.Context(), "default", name, metav1.DeleteOptions{GracePeriodSeconds: grace})
		if err != nil && w.get(name) != nil {
			w.t.Errorf("deleting %s: %v", name, err)
		}
		<-time.After(time.Duration(chance.Int64N(int64(300 * time.Millisecond))))
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for last := w.get(name); last != nil; last = w.get(name) {
		if time.Since(began) > 2*time.Minute {
			w.t.Errorf("%s still exists: %s %+v", name, last.Status.Phase, last.Status.ContainerStatuses)
			return ran, time.Since(began)
		}
		<-tick.C
	}
	return ran, time.Since(began)
}
