package prioritytest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	upstream "k8s.io/client-go/util/workqueue"

	"github.com/garboard/garboard/libs/informer/workqueue"
)

// record holds the metrics of one queue: for each the sum and the number of its values.
type record struct {
	mu    sync.Mutex
	sums  map[string]float64
	count map[string]int
}

func (r *record) sum(name string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return int(r.sums[name])
}

// String rounds, since the implementations may subtract times in different orders.
func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		fmt.Fprintf(&b, "%s %d/%.6f ", name, r.count[name], r.sums[name])
	}
	return b.String()
}

// entry is one metric.
type entry struct {
	r    *record
	name string
}

func (e entry) note(value float64, set bool) {
	e.r.mu.Lock()
	defer e.r.mu.Unlock()
	if e.r.sums == nil {
		e.r.sums, e.r.count = map[string]float64{}, map[string]int{}
	}
	if set {
		e.r.sums[e.name] = value
		return
	}
	e.r.sums[e.name] += value
	e.r.count[e.name]++
}

func (e entry) Inc()              { e.note(1, false) }
func (e entry) Dec()              { e.note(-1, false) }
func (e entry) Observe(v float64) { e.note(v, false) }
func (e entry) Set(v float64)     { e.note(v, true) }

type ours struct{ r *record }

func (o ours) NewDepthMetric(string) workqueue.GaugeMetric       { return entry{o.r, "depth"} }
func (o ours) NewAddsMetric(string) workqueue.CounterMetric      { return entry{o.r, "adds"} }
func (o ours) NewRetriesMetric(string) workqueue.CounterMetric   { return entry{o.r, "retries"} }
func (o ours) NewLatencyMetric(string) workqueue.HistogramMetric { return entry{o.r, "latency"} }
func (o ours) NewWorkDurationMetric(string) workqueue.HistogramMetric {
	return entry{o.r, "duration"}
}
func (o ours) NewUnfinishedWorkSecondsMetric(string) workqueue.SettableGaugeMetric {
	return entry{o.r, "unfinished"}
}
func (o ours) NewLongestRunningProcessorSecondsMetric(string) workqueue.SettableGaugeMetric {
	return entry{o.r, "longest"}
}

type theirs struct{ r *record }

func (o theirs) NewDepthMetric(string) upstream.GaugeMetric       { return entry{o.r, "depth"} }
func (o theirs) NewAddsMetric(string) upstream.CounterMetric      { return entry{o.r, "adds"} }
func (o theirs) NewRetriesMetric(string) upstream.CounterMetric   { return entry{o.r, "retries"} }
func (o theirs) NewLatencyMetric(string) upstream.HistogramMetric { return entry{o.r, "latency"} }
func (o theirs) NewWorkDurationMetric(string) upstream.HistogramMetric {
	return entry{o.r, "duration"}
}
func (o theirs) NewUnfinishedWorkSecondsMetric(string) upstream.SettableGaugeMetric {
	return entry{o.r, "unfinished"}
}
func (o theirs) NewLongestRunningProcessorSecondsMetric(string) upstream.SettableGaugeMetric {
	return entry{o.r, "longest"}
}
