package localvolumes

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

type metrics struct {
	durations *prometheus.HistogramVec
	folders   *prometheus.GaugeVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	return &metrics{
		durations: metric.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "storage_operation_duration_seconds", Help: "Seconds that operations on the node's volumes took.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
		}, []string{"volume_plugin", "operation_name", "status", "migrated"})),
		folders: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "garboard_local_volume_folders", Help: "Folders of local volumes on the node, by state.",
		}, []string{"state"})),
	}
}

// took records an operation.
func (m *metrics) took(operation string, took time.Duration, err error) {
	status := "success"
	if err != nil {
		status = "fail-unknown"
	}
	m.durations.WithLabelValues("kubernetes.io/local-volume", operation, status, "false").Observe(took.Seconds())
}
