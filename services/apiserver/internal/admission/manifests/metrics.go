package manifests

import (
	"crypto/sha256"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are Kubernetes' metrics of manifests, for one plugin.
type metrics struct {
	reloads *prometheus.CounterVec
	last    *prometheus.GaugeVec
	info    *prometheus.GaugeVec
	plugin  string
	server  string // the hash of the apiserver's identity
}

func newMetrics(registerer prometheus.Registerer, plugin, identity string) *metrics {
	m := &metrics{
		plugin: plugin,
		reloads: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "apiserver_manifest_admission_config_controller_automatic_reloads_total",
			Help: "Total number of automatic reloads of admission manifest configuration split by status, plugin, and apiserver identity.",
		}, []string{"status", "plugin", serverLabel})),
		last: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_manifest_admission_config_controller_automatic_reload_last_timestamp_seconds",
			Help: "Timestamp of the last automatic reload of admission manifest configuration split by status, plugin, and apiserver identity.",
		}, []string{"status", "plugin", serverLabel})),
		info: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "apiserver_manifest_admission_config_controller_last_config_info",
			Help: "Information about the last applied admission manifest configuration with hash as label, split by plugin and apiserver identity.",
		}, []string{"plugin", serverLabel, "hash"})),
	}
	if identity != "" {
		m.server = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(identity)))
	}
	return m
}

func (m *metrics) reloaded(well bool) {
	status := "failure"
	if well {
		status = "success"
	}
	m.reloads.WithLabelValues(status, m.plugin, m.server).Inc()
	m.last.WithLabelValues(status, m.plugin, m.server).SetToCurrentTime()
}

// inForce sets the hash of the files in force, the only one of the plugin.
func (m *metrics) inForce(hash string) {
	m.info.DeletePartialMatch(prometheus.Labels{"plugin": m.plugin})
	m.info.WithLabelValues(m.plugin, m.server, hash).Set(1)
}
