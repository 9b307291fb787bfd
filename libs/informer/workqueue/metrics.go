package workqueue

import (
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/garboard/garboard/libs/informer/workqueue/internal/levels"
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

// SummaryMetric records single observations.
type SummaryMetric interface {
	Observe(float64)
}

// HistogramMetric records single observations.
type HistogramMetric interface {
	Observe(float64)
}

// MetricsProvider creates the metrics of the queue with a name. Times are in seconds.
type MetricsProvider interface {
	// NewDepthMetric creates the number of items that need work and are not with a worker.
	NewDepthMetric(name string) GaugeMetric
	// NewAddsMetric creates the number of items added.
	NewAddsMetric(name string) CounterMetric
	// NewLatencyMetric creates the times from an item's first add to its get.
	NewLatencyMetric(name string) HistogramMetric
	// NewWorkDurationMetric creates the times from get to done.
	NewWorkDurationMetric(name string) HistogramMetric
	// NewUnfinishedWorkSecondsMetric creates the sum of the times for which workers have held items
	// so far.
	NewUnfinishedWorkSecondsMetric(name string) SettableGaugeMetric
	// NewLongestRunningProcessorSecondsMetric creates the longest of these times.
	NewLongestRunningProcessorSecondsMetric(name string) SettableGaugeMetric
	// NewRetriesMetric creates the number of delayed adds.
	NewRetriesMetric(name string) CounterMetric
}

// DepthMetricWithPriority is the number of items that need work and are not with a worker, by
// priority.
type DepthMetricWithPriority interface {
	Inc(priority int)
	Dec(priority int)
}

// MetricsProviderWithPriority is a MetricsProvider that distinguishes priorities. Without it a
// queue with priorities has the depth of NewDepthMetric (controller-runtime,
// pkg/internal/metrics.MetricsProviderWithPriority).
type MetricsProviderWithPriority interface {
	MetricsProvider
	// NewDepthMetricWithPriority creates the depth of the queue with a name.
	NewDepthMetricWithPriority(name string) DepthMetricWithPriority
}

// provider is the process's MetricsProvider, for queues whose options name none. It is part of
// client-go's interface; Garboard's own queues name theirs.
var provider struct {
	mu  sync.Mutex
	set MetricsProvider
}

// SetProvider sets the metrics provider of queues created later whose options name none. Only the
// first call in a process counts.
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

// metrics are the metrics of one queue, used under its lock; a nil *metrics does nothing.
type metrics[T comparable] struct {
	clock clock.PassiveClock
	depth GaugeMetric
	// order is the order of a queue with priorities whose depth counts by priority; otherwise nil.
	order    *levels.Levels[T]
	levels   DepthMetricWithPriority
	adds     CounterMetric
	latency  HistogramMetric
	duration HistogramMetric
	sum      SettableGaugeMetric
	longest  SettableGaugeMetric
	// added and started are when the dirty items were added and when workers got the held ones.
	added, started map[T]time.Time
}

func newMetrics[T comparable](p MetricsProvider, name string, c clock.PassiveClock) *metrics[T] {
	m := newMetricsWithoutDepth[T](p, name, c)
	if m != nil {
		m.depth = providerOr(p).NewDepthMetric(name)
	}
	return m
}

// newMetricsByPriority is newMetrics for a queue with priorities, if p can distinguish them.
func newMetricsByPriority[T comparable](p MetricsProvider, name string, c clock.PassiveClock, order *levels.Levels[T]) *metrics[T] {
	able, ok := providerOr(p).(MetricsProviderWithPriority)
	if !ok {
		return newMetrics[T](p, name, c)
	}
	m := newMetricsWithoutDepth[T](p, name, c)
	if m != nil {
		m.order, m.levels = order, able.NewDepthMetricWithPriority(name)
	}
	return m
}

func newMetricsWithoutDepth[T comparable](p MetricsProvider, name string, c clock.PassiveClock) *metrics[T] {
	p = providerOr(p)
	if p == nil || name == "" {
		return nil
	}
	return &metrics[T]{
		clock:    c,
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
	if m.order != nil {
		m.levels.Inc(m.order.Priority(item))
	} else {
		m.depth.Inc()
	}
	m.added[item] = m.clock.Now()
}

func (m *metrics[T]) get(item T) {
	if m.order != nil {
		m.levels.Dec(m.order.Popped())
	} else {
		m.depth.Dec()
	}
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

// sample updates the metrics of held items.
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

// raised records that the priority of an item that needs work has changed.
func (m *metrics[T]) raised(from, to int) {
	if m != nil && m.order != nil {
		m.levels.Dec(from)
		m.levels.Inc(to)
	}
}
