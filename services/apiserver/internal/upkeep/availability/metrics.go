package availability

import (
	"github.com/prometheus/client_golang/prometheus"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"

	"github.com/garboard/garboard/libs/metric"
)

// metrics are kube-aggregator's.
type metrics struct {
	unavailable *prometheus.GaugeVec
	turns       *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	return &metrics{
		unavailable: metric.Register(registerer, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "aggregator_unavailable_apiservice",
			Help: "Gauge of APIServices which are marked as unavailable broken down by APIService name.",
		}, []string{"name"})),
		turns: metric.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "aggregator_unavailable_apiservice_total",
			Help: "Counter of APIServices which are marked as unavailable broken down by APIService name and reason.",
		}, []string{"name", "reason"})),
	}
}

// set records whether an API is available.
func (m *metrics) set(name string, available bool) {
	value := 1.0
	if available {
		value = 0
	}
	m.unavailable.WithLabelValues(name).Set(value)
}

// turned counts an APIService that is no longer available.
func (m *metrics) turned(before, after *apiService) {
	now := helper.GetAPIServiceConditionByType(after, apiregistrationv1.Available)
	if helper.IsAPIServiceConditionTrue(before, apiregistrationv1.Available) && now != nil && now.Status != apiregistrationv1.ConditionTrue {
		m.turns.WithLabelValues(after.Name, now.Reason).Inc()
	}
}

// forget removes the series of an APIService that has no Service any more.
func (m *metrics) forget(name string) {
	m.unavailable.DeleteLabelValues(name)
	m.turns.DeletePartialMatch(prometheus.Labels{"name": name})
}
