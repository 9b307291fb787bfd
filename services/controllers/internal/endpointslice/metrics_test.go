package endpointslice

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t, node("n1", "a"), node("n2", "b"))
		registry := prometheus.NewRegistry()
		p.Config.Registerer = registry
		p.Declare(New)
		p.Start()
		for n := range 120 {
			p.Load(pod(n))
		}
		settle()
		controltest.Create(p, service(func(svc *corev1.Service) { svc.Spec.TrafficDistribution = optional("PreferSameZone") }))
		settle()
		is := func(name string, want float64) {
			t.Helper()
			if got := value(t, registry, "endpoint_slice_controller_"+name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
		is("endpoints_desired", 120)
		is("num_endpoint_slices", 2)
		is("desired_endpoint_slices", 2)
		is("services_count_by_traffic_distribution", 1)
		is("changes", 2)
		for n := 20; n < 120; n++ {
			p.Remove(pod(n))
		}
		settle()
		is("endpoints_desired", 20)
		is("desired_endpoint_slices", 1)
		p.Remove(service())
		settle()
		is("endpoints_desired", 0)
		is("num_endpoint_slices", 0)
		is("services_count_by_traffic_distribution", 0)
	})
}

// value returns the sum of a metric's values.
func value(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() == name {
			for _, metric := range family.GetMetric() {
				sum += metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
			}
		}
	}
	return sum
}
