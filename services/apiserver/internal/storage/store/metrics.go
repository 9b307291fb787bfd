package store

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/fence"
	"github.com/garboard/garboard/libs/scheme"
)

// metrics has the names and labels of kube-apiserver's metrics (storage/etcd3/metrics).
type metrics struct {
	duration *prometheus.HistogramVec
	requests *prometheus.CounterVec
	failures *prometheus.CounterVec
	corrupt  *prometheus.CounterVec
	fences   *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	labels := []string{"operation", "group", "resource"}
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "etcd_request_duration_seconds",
			Help:    "Etcd request latency in seconds for each operation and object type.",
			Buckets: []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60},
		}, labels),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_requests_total", Help: "Etcd request counts for each operation and object type.",
		}, labels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "etcd_request_errors_total", Help: "Etcd failed request counts for each operation and object type.",
		}, labels),
		corrupt: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_storage_decode_errors_total", Help: "Number of stored object decode errors split by object type.",
		}, []string{"group", "resource"}),
		fences: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "garboard_store_fenced_writes_total",
			Help: "Writes by leaders by outcome: fenced (committed in one transaction that also compares their Lease), checked (committed; the Lease is in another etcd and was read just before), refused (another process holds their Lease).",
		}, []string{"group", "resource", "outcome"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.duration, m.requests, m.failures, m.corrupt, m.fences)
	}
	return m
}

// registerSizes registers a gauge for the size of each cluster's database, which is queried at each
// scrape.
func (s *Store) registerSizes(registerer prometheus.Registerer) {
	if registerer == nil {
		return
	}
	for i, one := range s.Clusters() {
		registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "apiserver_storage_size_bytes", Help: "Size of the storage database file physically allocated in bytes.",
			ConstLabels: prometheus.Labels{"storage_cluster_id": "etcd-" + strconv.Itoa(i)},
		}, one.etcd.Size))
	}
}

func (s *Store) observe(operation string, kind *scheme.Kind, began time.Time, err error) {
	m := s.metrics
	m.duration.WithLabelValues(operation, kind.Group, kind.Resource).Observe(time.Since(began).Seconds())
	m.requests.WithLabelValues(operation, kind.Group, kind.Resource).Inc()
	if err != nil {
		m.failures.WithLabelValues(operation, kind.Group, kind.Resource).Inc()
	}
	if kind.Custom {
		s.Forget(kind) // It may have been removed since the operation began.
	}
}

// fence counts a write that failed with err, if it was refused because its fence no longer holds.
func (m *metrics) fence(kind *scheme.Kind, err error) {
	if fence.IsLost(err) {
		m.fences.WithLabelValues(kind.Group, kind.Resource, outcomeRefused).Inc()
	}
}

// Forget removes the metrics of a kind that is no longer served, unless its resource is again. Whoever may
// define kinds could make series without end.
func (s *Store) Forget(kind *scheme.Kind) {
	if s.table.Stored(kind.GroupResource()) != nil {
		return
	}
	labels := prometheus.Labels{"group": kind.Group, "resource": kind.Resource}
	m := s.metrics
	for _, vec := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.duration, m.requests, m.failures, m.corrupt, m.fences} {
		vec.DeletePartialMatch(labels)
	}
}
