package workqueue_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// limitedQueue is what client-go's rate limiting queue and ours have in common.
type limitedQueue interface {
	workqueue.TypedRateLimitingInterface[string]
}

// side is one of the two queues that are compared, with all that can be seen of it.
type side struct {
	q       limitedQueue
	counts  *counts
	held    []string
	drained atomic.Bool
	trace   []string
}

// Checklist A-D: random operations on client-go's queue and ours, in one bubble of synthetic
// time; what can be observed is compared after each step. Left out are the cases in which this
// package mends client-go: Done of an item nobody holds, several drains, equal due times.
func TestSameAsClientGo(t *testing.T) {
	seeds := 400
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		ours, theirs := replay(t, uint64(seed), newOurs)
		for i := range theirs {
			if i >= len(ours) || ours[i] != theirs[i] {
				t.Fatalf("seed %d: step %d differs\nclient-go: %s\nours:      %s", seed, i, theirs[i], ours[i])
			}
		}
	}
}

func newOurs(counts *counts) limitedQueue {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](7*time.Millisecond, time.Second),
		workqueue.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: counts})
}

func newTheirs(counts *counts) limitedQueue {
	return upstream.NewTypedRateLimitingQueueWithConfig(
		upstream.NewTypedItemExponentialFailureRateLimiter[string](7*time.Millisecond, time.Second),
		upstream.TypedRateLimitingQueueConfig[string]{Name: "q", MetricsProvider: theirCounts{counts}})
}

// replay runs one random script on both queues.
func replay(t *testing.T, seed uint64, ours func(*counts) limitedQueue) (ourTrace, theirTrace []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var sides [2]*side
		for i, make := range []func(*counts) limitedQueue{ours, newTheirs} {
			c := &counts{}
			sides[i] = &side{q: make(c), counts: c}
		}
		random := rand.New(rand.NewPCG(seed, 1))
		keys := []string{"a", "b", "c", "d", "e"}
		drain := false
		for step := range 120 {
			op, key := random.IntN(100), keys[random.IntN(len(keys))]
			delay := time.Duration(random.IntN(40)) * time.Millisecond
			pick := random.IntN(1 << 16)
			if op >= 98 && step < 60 {
				op = 0
			}
			// A microsecond for each step: no two due instants are equal, and none is now.
			time.Sleep(time.Microsecond)
			for _, s := range sides {
				s.step(op, key, delay, pick, drain)
			}
			switch {
			case op >= 98:
				drain = true
			case op >= 90:
				time.Sleep(delay)
			}
			synctest.Wait()
			for _, s := range sides {
				s.observe(step, keys)
			}
		}
		for _, s := range sides {
			s.q.ShutDown()
			for _, key := range s.held {
				s.q.Done(key)
			}
		}
		// client-go's waiting loop notices a drain at its next heartbeat only.
		time.Sleep(11 * time.Second)
		ourTrace, theirTrace = sides[0].trace, sides[1].trace
	})
	return ourTrace, theirTrace
}

func (s *side) step(op int, key string, delay time.Duration, pick int, draining bool) {
	note := ""
	switch {
	case op < 25:
		s.q.Add(key)
		note = "add " + key
	case op < 50:
		if s.q.Len() == 0 {
			note = "get: empty"
			break
		}
		item, shutdown := s.q.Get()
		if !shutdown {
			s.held = append(s.held, item)
		}
		note = fmt.Sprintf("get %s %v", item, shutdown)
	case op < 70:
		if len(s.held) == 0 {
			break
		}
		i := pick % len(s.held)
		note = "done " + s.held[i]
		s.q.Done(s.held[i])
		s.held = append(s.held[:i], s.held[i+1:]...)
	case op < 80:
		s.q.AddAfter(key, delay)
		note = fmt.Sprintf("add %s after %v", key, delay)
	case op < 86:
		s.q.AddRateLimited(key)
		note = "add rate limited " + key
	case op < 90:
		s.q.Forget(key)
		note = "forget " + key
	case op < 98:
		note = "time"
	case !draining && pick%2 == 0:
		note = "drain"
		go func() {
			s.q.ShutDownWithDrain()
			s.drained.Store(true)
		}()
	default:
		note = "shut down"
		s.q.ShutDown()
	}
	s.trace = append(s.trace, note)
}

func (s *side) observe(step int, keys []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%d: %s: len %d down %v drained %v requeues", step, s.trace[len(s.trace)-1], s.q.Len(), s.q.ShuttingDown(), s.drained.Load())
	for _, key := range keys {
		fmt.Fprintf(&b, " %d", s.q.NumRequeues(key))
	}
	fmt.Fprintf(&b, " metrics %v", s.counts)
	s.trace[len(s.trace)-1] = b.String()
}

// counts are all metrics of one queue.
type counts struct {
	depth, adds, retries gauge
	latency, duration    histogram
}

func (c *counts) String() string {
	return fmt.Sprint("depth ", c.depth.n.Load(), " adds ", c.adds.n.Load(), " retries ", c.retries.n.Load(),
		" latency ", c.latency.String(), " duration ", c.duration.String())
}

type gauge struct{ n atomic.Int64 }

func (g *gauge) Inc() { g.n.Add(1) }
func (g *gauge) Dec() { g.n.Add(-1) }

type histogram struct {
	mu  sync.Mutex
	n   int
	sum float64
}

func (h *histogram) Observe(v float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.n++
	h.sum += v
}

func (h *histogram) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return fmt.Sprint(h.n, "/", h.sum)
}

type ignored struct{}

func (ignored) Set(float64) {}

func (c *counts) NewDepthMetric(string) workqueue.GaugeMetric  { return &c.depth }
func (c *counts) NewAddsMetric(string) workqueue.CounterMetric { return &c.adds }
func (c *counts) NewLatencyMetric(string) workqueue.HistogramMetric {
	return &c.latency
}
func (c *counts) NewWorkDurationMetric(string) workqueue.HistogramMetric {
	return &c.duration
}
func (c *counts) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return ignored{}
}
func (c *counts) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return ignored{}
}
func (c *counts) NewRetriesMetric(string) workqueue.CounterMetric { return &c.retries }

// theirCounts is counts under the types of client-go.
type theirCounts struct{ c *counts }

func (t theirCounts) NewDepthMetric(string) upstream.GaugeMetric  { return &t.c.depth }
func (t theirCounts) NewAddsMetric(string) upstream.CounterMetric { return &t.c.adds }
func (t theirCounts) NewLatencyMetric(string) upstream.HistogramMetric {
	return &t.c.latency
}
func (t theirCounts) NewWorkDurationMetric(string) upstream.HistogramMetric {
	return &t.c.duration
}
func (t theirCounts) NewUnfinishedWorkSecondsMetric(string) upstream.SettableGaugeMetric {
	return ignored{}
}
func (t theirCounts) NewLongestRunningProcessorSecondsMetric(string) upstream.SettableGaugeMetric {
	return ignored{}
}
func (t theirCounts) NewRetriesMetric(string) upstream.CounterMetric { return &t.c.retries }
