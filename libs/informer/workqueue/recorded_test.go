package workqueue_test

import (
	"fmt"
	"sync"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// recorded is a metrics provider for one queue, with the values of all seven metrics and the names
// under which they were created.
type recorded struct {
	depth, adds, retries, latency, duration, unfinished, longest number

	mu   sync.Mutex
	made []string
}

func (r *recorded) make(metric, name string, n *number) *number {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.made = append(r.made, metric+" "+name)
	return n
}

func (r *recorded) String() string {
	return fmt.Sprintf("depth %v adds %v retries %v latency %v duration %v unfinished %.8f longest %.8f",
		r.depth.get(), r.adds.get(), r.retries.get(), &r.latency, &r.duration, r.unfinished.get(), r.longest.get())
}

// number is a metric of any kind: its value, or the sum and count of its observations.
type number struct {
	mu    sync.Mutex
	value float64
	count int
}

func (n *number) add(v float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.value += v
	n.count++
}

func (n *number) Inc()              { n.add(1) }
func (n *number) Dec()              { n.add(-1) }
func (n *number) Observe(v float64) { n.add(v) }

func (n *number) Set(v float64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.value = v
}

func (n *number) get() float64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.value
}

// String formats observations. It rounds the sum, since the implementations may subtract times in
// different orders.
func (n *number) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return fmt.Sprintf("%d/%.6f", n.count, n.value)
}

func (r *recorded) NewDepthMetric(name string) workqueue.GaugeMetric {
	return r.make("depth", name, &r.depth)
}
func (r *recorded) NewAddsMetric(name string) workqueue.CounterMetric {
	return r.make("adds", name, &r.adds)
}
func (r *recorded) NewLatencyMetric(name string) workqueue.HistogramMetric {
	return r.make("latency", name, &r.latency)
}
func (r *recorded) NewWorkDurationMetric(name string) workqueue.HistogramMetric {
	return r.make("duration", name, &r.duration)
}
func (r *recorded) NewUnfinishedWorkSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return r.make("unfinished", name, &r.unfinished)
}
func (r *recorded) NewLongestRunningProcessorSecondsMetric(name string) workqueue.SettableGaugeMetric {
	return r.make("longest", name, &r.longest)
}
func (r *recorded) NewRetriesMetric(name string) workqueue.CounterMetric {
	return r.make("retries", name, &r.retries)
}

// theirs wraps recorded in the types of client-go.
type theirs struct{ r *recorded }

func (t theirs) NewDepthMetric(n string) upstream.GaugeMetric       { return t.r.NewDepthMetric(n) }
func (t theirs) NewAddsMetric(n string) upstream.CounterMetric      { return t.r.NewAddsMetric(n) }
func (t theirs) NewLatencyMetric(n string) upstream.HistogramMetric { return t.r.NewLatencyMetric(n) }
func (t theirs) NewWorkDurationMetric(n string) upstream.HistogramMetric {
	return t.r.NewWorkDurationMetric(n)
}
func (t theirs) NewUnfinishedWorkSecondsMetric(n string) upstream.SettableGaugeMetric {
	return t.r.NewUnfinishedWorkSecondsMetric(n)
}
func (t theirs) NewLongestRunningProcessorSecondsMetric(n string) upstream.SettableGaugeMetric {
	return t.r.NewLongestRunningProcessorSecondsMetric(n)
}
func (t theirs) NewRetriesMetric(n string) upstream.CounterMetric { return t.r.NewRetriesMetric(n) }
