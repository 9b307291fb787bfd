package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/informer/watcher"
)

// Informer reports its status.
type Informer interface{ Status() watcher.Status }

// Statuses are the informers that share a registerer. As a collector it reads each Status when it
// is scraped, so nothing is counted while changes flow.
type Statuses struct {
	mu   sync.Mutex
	from map[Informer]struct{}
}

var (
	cacheLabels   = []string{"service", "resource"}
	handlerLabels = []string{"service", "resource", "handler"}
	// Upstream's labels, of k8s.io/component-base.
	upstreamLabels = []string{"name", "group", "version", "resource"}

	objectsDesc  = prometheus.NewDesc("informer_objects", "Objects in the stores.", cacheLabels, nil)
	revisionDesc = prometheus.NewDesc("informer_revision",
		"The etcd revision of which the store is the exact content; the oldest of several views.", cacheLabels, nil)
	silentDesc = prometheus.NewDesc("informer_silent_seconds",
		"Time since the follower last reported anything; the longest of several views.", cacheLabels, nil)
	pendingDesc = prometheus.NewDesc("informer_pending_notifications",
		"Notifications waiting for a handler.", handlerLabels, nil)
	lagRevisionsDesc = prometheus.NewDesc("informer_lag_revisions",
		"Revisions by which the store is behind the newest known one (handler empty), or a handler behind the store.",
		handlerLabels, nil)
	lagSecondsDesc = prometheus.NewDesc("informer_lag_seconds",
		"For how long the store has been behind the newest known revision (handler empty), or a handler behind the store.", handlerLabels, nil)
	queuedDesc = prometheus.NewDesc("informer_queued_items",
		"Number of items currently queued between follower and store.", upstreamLabels, nil)
	storeVersionDesc = prometheus.NewDesc("informer_store_resource_version",
		"The resourceVersion of the store; the oldest of several views.", upstreamLabels, nil)
)

// Add adds an informer to the metrics.
func (s *Statuses) Add(informer Informer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from[informer] = struct{}{}
}

// Remove removes an informer from the metrics.
func (s *Statuses) Remove(informer Informer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.from, informer)
}

// Describe names the metrics.
func (s *Statuses) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		objectsDesc, revisionDesc, silentDesc, pendingDesc, lagRevisionsDesc, lagSecondsDesc, queuedDesc, storeVersionDesc,
	} {
		to <- desc
	}
}

// sample identifies one series: several informers may have the same labels.
type sample struct {
	desc   *prometheus.Desc
	labels [4]string
}

// Collect sends the metrics of every informer.
func (s *Statuses) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	rows := make([]watcher.Status, 0, len(s.from))
	informers := make([]Informer, 0, len(s.from))
	for informer := range s.from {
		informers = append(informers, informer)
	}
	s.mu.Unlock()
	for _, informer := range informers {
		rows = append(rows, informer.Status())
	}
	values := map[sample]float64{}
	put := func(merge func(a, b float64) float64, value float64, desc *prometheus.Desc, labels ...string) {
		key := sample{desc: desc}
		copy(key.labels[:], labels)
		if before, exists := values[key]; exists {
			value = merge(before, value)
		}
		values[key] = value
	}
	sum := func(a, b float64) float64 { return a + b }
	highest := func(a, b float64) float64 { return max(a, b) }
	lowest := func(a, b float64) float64 { return min(a, b) }
	for _, w := range rows {
		resource := w.Resource
		if w.Group != "" {
			resource += "." + w.Group
		}
		put(sum, float64(w.Objects), objectsDesc, w.Service, resource)
		put(lowest, float64(w.Revision), revisionDesc, w.Service, resource)
		put(highest, w.SilentSeconds, silentDesc, w.Service, resource)
		put(sum, float64(w.Queued), queuedDesc, w.Service, w.Group, w.Version, w.Resource)
		put(lowest, float64(w.Revision), storeVersionDesc, w.Service, w.Group, w.Version, w.Resource)
		put(highest, float64(w.LagRevisions), lagRevisionsDesc, w.Service, resource, "")
		put(highest, w.LagSeconds, lagSecondsDesc, w.Service, resource, "")
		for _, h := range w.Handlers {
			put(sum, float64(h.Pending), pendingDesc, w.Service, resource, h.Name)
			put(highest, float64(h.LagRevisions), lagRevisionsDesc, w.Service, resource, h.Name)
			put(highest, h.LagSeconds, lagSecondsDesc, w.Service, resource, h.Name)
		}
	}
	count := map[*prometheus.Desc]int{
		objectsDesc: 2, revisionDesc: 2, silentDesc: 2, pendingDesc: 3, lagRevisionsDesc: 3, lagSecondsDesc: 3, queuedDesc: 4,
		storeVersionDesc: 4,
	}
	for key, value := range values {
		to <- prometheus.MustNewConstMetric(key.desc, prometheus.GaugeValue, value, key.labels[:count[key.desc]]...)
	}
}
