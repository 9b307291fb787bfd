package endpointslicemirroring

import (
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/controllers/internal/controltest"
)

// TestMetrics checks what is counted while addresses come, change and go.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := controltest.New(t)
		registry := prometheus.NewRegistry()
		p.Config.Registerer = registry
		p.Declare(New)
		p.Start()
		skipped := false
		is := func(when string, want map[string]float64) {
			t.Helper()
			settle()
			got := map[string]float64{}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, family := range families {
				for _, m := range family.GetMetric() {
					got[family.GetName()] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetHistogram().GetSampleSum()
				}
			}
			skipped = got["endpoint_slice_mirroring_controller_addresses_skipped_per_sync"] > 0 // Each reconcile adds to it.
			for name, value := range want {
				if got := got["endpoint_slice_mirroring_controller_"+name]; got != value {
					t.Errorf("%s: %s is %v, want %v", when, name, got, value)
				}
			}
		}
		p.Load(service())
		p.Load(custom("10.0.0.1", "10.0.0.2", "wrong"))
		is("new", map[string]float64{
			"endpoints_added_per_sync": 2, "endpoints_updated_per_sync": 0, "endpoints_removed_per_sync": 0,
			"endpoints_desired": 2, "num_endpoint_slices": 1, "desired_endpoint_slices": 1, "changes": 1,
		})
		if !skipped {
			t.Error("no address counts as left out")
		}
		controltest.Change(p, "default", "db", func(e *corev1.Endpoints) { e.Subsets = custom("/10.0.0.1", "10.0.0.3", "fd00::1").Subsets })
		is("changed", map[string]float64{
			"endpoints_added_per_sync": 4, "endpoints_updated_per_sync": 1, "endpoints_removed_per_sync": 1,
			"endpoints_desired": 3, "num_endpoint_slices": 2, "desired_endpoint_slices": 2, "changes": 3,
		})
		p.Remove(custom())
		is("gone", map[string]float64{"endpoints_desired": 0, "num_endpoint_slices": 0, "desired_endpoint_slices": 0})
	})
}
