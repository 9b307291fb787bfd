package metric_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/metric"
)

func counter(labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "things_total", Help: "Things."}, labels)
}

func TestRegister(t *testing.T) {
	registry := prometheus.NewRegistry()
	first, second := metric.Register(registry, counter("a")), metric.Register(registry, counter("a"))
	if first != second {
		t.Error("the same counter was registered twice")
	}
	second.WithLabelValues("x").Inc()
	metric.Register(registry, counter("other", "labels")).WithLabelValues("x", "y").Inc()
	metric.Register(nil, counter("a")).WithLabelValues("x").Inc()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if len(families) != 1 || len(families[0].GetMetric()) != 1 || families[0].GetMetric()[0].GetCounter().GetValue() != 1 {
		t.Errorf("the registry gathers %v", families)
	}
}
