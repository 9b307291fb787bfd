package respond

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// TestSeriesOfRemovedKinds checks that the series of a kind end with it, also if it goes while an ask is
// answered, and that names which are not served make none.
func TestSeriesOfRemovedKinds(t *testing.T) {
	table := scheme.New()
	registry := prometheus.NewRegistry()
	m := newMetrics(registry, table)
	eggs, pods := schema.GroupResource{Group: "example.org", Resource: "eggs"}, schema.GroupResource{Resource: "pods"}
	kind := &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: eggs.Group, Version: "v1", Kind: "Egg"}, Resource: eggs.Resource, Singular: "egg", StoragePrefix: "example.org/eggs", Custom: true,
	}
	check := func(what string, want map[string]float64) {
		t.Helper()
		got := map[string]float64{}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, one := range family.GetMetric() {
				for _, label := range one.GetLabel() {
					if label.GetName() == "resource" {
						got[label.GetValue()] += one.GetCounter().GetValue()
					}
				}
			}
		}
		for name, count := range want {
			if got[name] != count {
				t.Errorf("%s: %q has %v, want %v", what, name, got[name], count)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	if err := table.Install(kind); err != nil {
		t.Fatal(err)
	}
	m.answered(eggs, "REPLAY")
	m.answered(eggs, "FORBIDDEN")
	m.answered(pods, "REPLAY")
	m.answered(schema.GroupResource{Resource: "made-up"}, "NOT_FOUND")
	m.sweep()
	check("while it is served", map[string]float64{"eggs": 2, "pods": 1, "": 1})
	table.Remove(kind.GroupVersionKind)
	m.answered(eggs, "REPLAY")
	m.sweep()
	check("when it is gone", map[string]float64{"pods": 1, "": 2})
	if err := table.Install(kind); err != nil {
		t.Fatal(err)
	}
	m.answered(eggs, "REPLAY")
	m.sweep()
	check("when it is back", map[string]float64{"eggs": 1, "pods": 1, "": 2})
}
