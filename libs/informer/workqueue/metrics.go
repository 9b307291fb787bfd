package workqueue

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// GaugeMetric is a number that goes up and down by one.
type GaugeMetric interface {
	Inc()
	Dec()
}

// SettableGaugeMetric is a number that is set.
type SettableGaugeMetric interface {
	Set(float64)
}

// CounterMetric is a number that only rises.
type CounterMetric interface {
	Inc()
}

// SummaryMetric takes single observations.
type SummaryMetric interface {
	Observe(float64)
}

// HistogramMetric takes single observations.
type HistogramMetric interface {
	Observe(float64)
}

// MetricsProvider makes the metrics of the queue with a name. Times are in seconds.
type MetricsProvider interface {
	// NewDepthMetric makes the number of items that need work and are not with a worker.
	NewDepthMetric(name string) GaugeMetric
	// NewAddsMetric makes the number of items added.
	NewAddsMetric(name string) CounterMetric
	// NewLatencyMetric makes the times from an item's first add to its get.
	NewLatencyMetric(name string) HistogramMetric
	// NewWorkDurationMetric makes the times from get to done.
	NewWorkDurationMetric(name string) HistogramMetric
	// NewUnfinishedWorkSecondsMetric makes the sum of the times that items are with workers now.
	NewUnfinishedWorkSecondsMetric(name string) SettableGaugeMetric
	// NewLongestRunningProcessorSecondsMetric makes the longest of these times.
	NewLongestRunningProcessorSecondsMetric(name string) SettableGaugeMetric
	// NewRetriesMetric makes the number of delayed adds.
	NewRetriesMetric(name string) CounterMetric
}

// provider is the process's MetricsProvider, for queues whose options name none. It is part
// of client-go's interface; Garboard's own queues name theirs.
var provider struct {
	mu  sync.Mutex
	set MetricsProvider
}

// SetProvider sets the metrics provider of queues made later whose options name none. Only
// the first call in a process counts.
func SetProvider(metricsProvider MetricsProvider) {
	provider.mu.Lock()
	defer provider.mu.Unlock()
	if provider.set == nil {
		provider.set = metricsProvider
	}
}

func providerOr(p MetricsProvider) MetricsProvider {
	if p != nil {
		return p
	}
	provider.mu.Lock()
	defer provider.mu.Unlock()
	return provider.set
}

// metrics are one queue's, used under its lock; a nil *metrics does nothing.
type metrics[T comparable] struct {
	clock    clock.PassiveClock
	depth    GaugeMetric
	adds     CounterMetric
	latency  HistogramMetric
	duration HistogramMetric
	sum      SettableGaugeMetric
	longest  SettableGaugeMetric
	// added and started are when the dirty items were added and the held ones were got.
	added, started map[T]time.Time
}

func newMetrics[T comparable](p MetricsProvider, name string, c clock.PassiveClock) *metrics[T] {
	p = providerOr(p)
	if p == nil || name == "" {
		return nil
	}
	return &metrics[T]{
		clock:    c,
		depth:    p.NewDepthMetric(name),
		adds:     p.NewAddsMetric(name),
		latency:  p.NewLatencyMetric(name),
		duration: p.NewWorkDurationMetric(name),
		sum:      p.NewUnfinishedWorkSecondsMetric(name),
		longest:  p.NewLongestRunningProcessorSecondsMetric(name),
		added:    map[T]time.Time{},
		started:  map[T]time.Time{},
	}
}

func newRetries(p MetricsProvider, name string) CounterMetric {
	p = providerOr(p)
	if p == nil || name == "" {
		return nil
	}
	return p.NewRetriesMetric(name)
}

func (m *metrics[T]) add(item T) {
	if m == nil {
		return
	}
	m.adds.Inc()
	m.depth.Inc()
	m.added[item] = m.clock.Now()
}

func (m *metrics[T]) get(item T) {
	m.depth.Dec()
	now := m.clock.Now()
	m.latency.Observe(now.Sub(m.added[item]).Seconds())
	delete(m.added, item)
	m.started[item] = now
}

func (m *metrics[T]) done(item T) {
	if m == nil {
		return
	}
	m.duration.Observe(m.clock.Since(m.started[item]).Seconds())
	delete(m.started, item)
}

// sample brings the metrics of held items up to date.
func (m *metrics[T]) sample() {
	var sum, longest time.Duration
	for _, start := range m.started {
		age := m.clock.Since(start)
		sum += age
		longest = max(longest, age)
	}
	m.sum.Set(sum.Seconds())
	m.longest.Set(longest.Seconds())
}
