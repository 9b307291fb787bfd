package localpath

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are those of sig-storage-lib-external-provisioner.
type metrics struct {
	provisions, failures *prometheus.CounterVec
	durations            *prometheus.HistogramVec
	deletions            *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	}
	return &metrics{
		provisions: counter("controller_persistentvolumeclaim_provision_total",
			"Volumes that were created for claims.", "class", "source"),
		failures: counter("controller_persistentvolumeclaim_provision_failed_total",
			"Attempts to create a volume for a claim that failed.", "class", "source"),
		durations: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "controller_persistentvolumeclaim_provision_duration_seconds",
			Help:    "Seconds that it took to create a volume for a claim.",
			Buckets: prometheus.DefBuckets,
		}, []string{"class", "source"})),
		deletions: counter("controller_persistentvolume_delete_total",
			"Released volumes that were deleted with their data.", "class"),
	}
}

// serves makes the counters of a class begin at 0, so that its first failure is an increase.
func (m *metrics) serves(class string) {
	m.provisions.WithLabelValues(class, "")
	m.failures.WithLabelValues(class, "")
}

// provisioned counts an attempt. The source of a claim's data is always empty: no other is supported.
func (m *metrics) provisioned(class string, took time.Duration, err error) {
	if err != nil {
		m.failures.WithLabelValues(class, "").Inc()
		return
	}
	m.provisions.WithLabelValues(class, "").Inc()
	m.durations.WithLabelValues(class, "").Observe(took.Seconds())
}

func (m *metrics) deleted(class string) { m.deletions.WithLabelValues(class).Inc() }
