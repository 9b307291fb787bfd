package election

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

// metrics have the names of Kubernetes' own (component-base,
// metrics/prometheus/clientgo/leaderelection), with the lease's name as the label.
type metrics struct {
	status   prometheus.Gauge
	slowpath prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer, name string) metrics {
	status := metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "leader_election_master_status",
		Help: "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
	}, []string{"name"}))
	slowpath := metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "leader_election_slowpath_total",
		Help: "Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.",
	}, []string{"name"}))
	return metrics{status: status.WithLabelValues(name), slowpath: slowpath.WithLabelValues(name)}
}
