package workqueue_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// ages are the sampled metrics of a queue.
type ages struct {
	counts
	sum, longest setting
}

type setting struct {
	mu sync.Mutex
	v  float64
}

func (s *setting) Set(v float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.v = v
}

func (s *setting) get() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.v
}

func (a *ages) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric { return &a.sum }
func (a *ages) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return &a.longest
}

// Checklist D50, D51: from the first add to the get, from get to done, and the ages of what
// workers hold, each half second.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &ages{}
		q := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "q", MetricsProvider: m})
		q.Add("a")
		q.Add("b")
		time.Sleep(2 * time.Second)
		q.Add("a") // Not the first add: it changes nothing.
		got(t, q, "a")
		time.Sleep(time.Second)
		got(t, q, "b")
		q.Add("a") // Counts although a worker has it.
		time.Sleep(1100 * time.Millisecond)
		if sum, longest := m.sum.get(), m.longest.get(); sum != 3 || longest != 2 {
			t.Errorf("unfinished %v s, longest %v s; want 3 and 2", sum, longest)
		}
		q.Done("a")
		q.Done("b")
		time.Sleep(time.Second)
		if sum, longest := m.sum.get(), m.longest.get(); sum != 0 || longest != 0 {
			t.Errorf("unfinished %v s, longest %v s after all is done", sum, longest)
		}
		if want := "depth 1 adds 3 retries 0 latency 2/5 duration 2/3.2"; m.counts.String() != want {
			t.Errorf("metrics are %q, want %q", m.counts.String(), want)
		}
		q.ShutDown() // goleak: the sampling has ended.
	})
}

// onceInAProcess is for what can be tested once in a process, also with -count.
var onceInAProcess sync.Once

// Checklist D52, A15: the process's provider is set once, for queues made later; without a
// name, or without a provider, nothing is measured and nothing runs.
func TestSetProvider(t *testing.T) {
	onceInAProcess.Do(func() {
		before := workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "before"})
		first, second := &counts{}, &counts{}
		workqueue.SetProvider(first)
		workqueue.SetProvider(second)
		for _, q := range []*workqueue.Typed[string]{
			before, workqueue.NewTyped[string](), workqueue.NewTypedWithConfig(workqueue.TypedQueueConfig[string]{Name: "after"}),
		} {
			q.Add("a")
		}
		if first.adds.n.Load() != 1 || second.adds.n.Load() != 0 {
			t.Errorf("the first provider counted %d adds, the second %d", first.adds.n.Load(), second.adds.n.Load())
		}
	})
}
