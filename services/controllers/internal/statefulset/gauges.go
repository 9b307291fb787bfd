package statefulset

import (
	"github.com/prometheus/client_golang/prometheus"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/garboard/garboard/libs/metric"
)

// gauges show how far a set's pods are from being available, under kube-controller-manager's names.
type gauges struct{ most, unavailable *prometheus.GaugeVec }

func newGauges(registerer prometheus.Registerer) *gauges {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return metric.Register(registerer, prometheus.NewGaugeVec(
			prometheus.GaugeOpts{Name: name, Help: help},
			[]string{"statefulset_namespace", "statefulset_name", "pod_management_policy"}))
	}
	return &gauges{
		most:        gauge("statefulset_controller_statefulset_max_unavailable", "How many pods of a StatefulSet may be unavailable in a rollout."),
		unavailable: gauge("statefulset_controller_statefulset_unavailable_replicas", "How many pods of a StatefulSet are missing or not available."),
	}
}

func (g *gauges) set(set *appsv1.StatefulSet, most, unavailable int) {
	policy := string(set.Spec.PodManagementPolicy)
	g.most.WithLabelValues(set.Namespace, set.Name, policy).Set(float64(most))
	g.unavailable.WithLabelValues(set.Namespace, set.Name, policy).Set(float64(unavailable))
}

// forget removes the gauges of a set that is gone.
func (g *gauges) forget(namespace, name string) {
	labels := prometheus.Labels{"statefulset_namespace": namespace, "statefulset_name": name}
	g.most.DeletePartialMatch(labels)
	g.unavailable.DeletePartialMatch(labels)
}
