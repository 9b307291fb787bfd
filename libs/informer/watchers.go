package informer

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Watcher says what one informer follows, and how far behind it is.
type Watcher struct {
	// Service is who follows.
	Service string `json:"service"`
	// Group, Version and Resource are what is followed, View which part of it.
	Group    string `json:"group,omitempty"`
	Version  string `json:"version"`
	Resource string `json:"resource"`
	View     View   `json:"view"`
	// Started, Synced and Stopped are where the informer is in its life.
	Started bool `json:"started"`
	Synced  bool `json:"synced"`
	Stopped bool `json:"stopped,omitempty"`
	// Objects are in the store, which is the exact content at Revision.
	Objects  int   `json:"objects"`
	Revision int64 `json:"revision"`
	// Queued are changes that the store does not have yet.
	Queued int `json:"queued"`
	// LagRevisions is by how much the newest revision that the informer heard of is above the
	// store's, and LagSeconds since when it is above.
	LagRevisions int64   `json:"lagRevisions"`
	LagSeconds   float64 `json:"lagSeconds"`
	// SilentSeconds is how long ago the follower last said anything; -1 if it never did. An
	// unchanged view is spoken of every few seconds, so that more means a fault.
	SilentSeconds float64 `json:"silentSeconds"`
	// Handlers are told of the changes.
	Handlers []HandlerStatus `json:"handlers"`
}

// HandlerStatus says how far one handler is behind the store of its informer.
type HandlerStatus struct {
	// Name is the handler's name or Go type.
	Name string `json:"name"`
	// Synced says whether the handler has returned from its initial list.
	Synced bool `json:"synced"`
	// Pending are the calls that wait, beside the one that runs.
	Pending int `json:"pending"`
	// LagRevisions and LagSeconds count from the oldest change of which the handler has not
	// returned; 0 if there is none.
	LagRevisions int64   `json:"lagRevisions"`
	LagSeconds   float64 `json:"lagSeconds"`
	// Coalesced counts the updates that the handler got as one with a later one.
	Coalesced int `json:"coalesced"`
	// Panics counts the calls that ended by a panic.
	Panics int `json:"panics"`
}

// Status says what the informer follows, and how far it and its handlers are behind.
func (s *shared[T]) Status() Watcher {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store.mu.RLock()
	objects, revision := len(s.store.entries), s.store.revision
	s.store.mu.RUnlock()
	w := Watcher{
		Service: s.service,
		Group:   s.kind.Group, Version: s.kind.Version, Resource: s.kind.Resource,
		View: s.view, Started: s.started.Load(), Synced: s.isSynced, Stopped: s.ended,
		Objects: objects, Revision: revision, Queued: s.queue.Len(),
		Handlers: make([]HandlerStatus, 0, len(s.listeners)),
	}
	w.LagRevisions, w.LagSeconds, w.SilentSeconds = s.progress.Lag(now)
	for _, l := range s.listeners {
		w.Handlers = append(w.Handlers, l.status(now, revision))
	}
	return w
}

// WatchersPath is where every service serves its watchers.
const WatchersPath = "/debug/garboard/watchers"

// ServeWatchers serves what each of sources gives, such as Watchers of a factory, as a JSON
// array, for tools that show who follows what and how far behind.
func ServeWatchers(sources ...func() []Watcher) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "only GET is allowed", http.StatusMethodNotAllowed)
			return
		}
		watchers := []Watcher{}
		for _, source := range sources {
			watchers = append(watchers, source()...)
		}
		body, err := json.Marshal(watchers)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n')) // The reader has gone; nobody is left to tell.
	})
}

// statuses are the informers of all who share a registerer. As a collector it shows, when
// asked, what Status gives, so that nothing is counted while changes flow.
type statuses struct {
	mu   sync.Mutex
	from map[interface{ Status() Watcher }]struct{}
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
		"Time since the follower last said anything; the longest of several views.", cacheLabels, nil)
	pendingDesc = prometheus.NewDesc("informer_pending_notifications",
		"Notifications that wait for a handler.", handlerLabels, nil)
	lagRevisionsDesc = prometheus.NewDesc("informer_lag_revisions",
		"Revisions between what was heard of and the store (handler empty), and between the store and what a handler has returned from.",
		handlerLabels, nil)
	lagSecondsDesc = prometheus.NewDesc("informer_lag_seconds",
		"For how long the store is behind what was heard of (handler empty), and a handler behind the store.", handlerLabels, nil)
	queuedDesc = prometheus.NewDesc("informer_queued_items",
		"Number of items currently queued between follower and store.", upstreamLabels, nil)
	storeVersionDesc = prometheus.NewDesc("informer_store_resource_version",
		"The resourceVersion of the store; the oldest of several views.", upstreamLabels, nil)
)

func newStatuses() *statuses {
	return &statuses{from: map[interface{ Status() Watcher }]struct{}{}}
}

func (s *statuses) add(informer interface{ Status() Watcher }) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.from[informer] = struct{}{}
}

func (s *statuses) remove(informer interface{ Status() Watcher }) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.from, informer)
}

// Describe names the metrics.
func (s *statuses) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		objectsDesc, revisionDesc, silentDesc, pendingDesc, lagRevisionsDesc, lagSecondsDesc, queuedDesc, storeVersionDesc,
	} {
		to <- desc
	}
}

// sample is one series to be: several informers may have the same labels.
type sample struct {
	desc   *prometheus.Desc
	labels [4]string
}

// Collect shows every informer.
func (s *statuses) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	rows := make([]Watcher, 0, len(s.from))
	informers := make([]interface{ Status() Watcher }, 0, len(s.from))
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
		objectsDesc: 2, revisionDesc: 2, silentDesc: 2, pendingDesc: 3, lagRevisionsDesc: 3, lagSecondsDesc: 3, queuedDesc: 4, storeVersionDesc: 4,
	}
	for key, value := range values {
		to <- prometheus.MustNewConstMetric(key.desc, prometheus.GaugeValue, value, key.labels[:count[key.desc]]...)
	}
}
