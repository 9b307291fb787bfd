package standalone

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// TestPartsHaveMetricsOfTheSameName checks that two parts may have the same metric, including the
// informers' label service. It also checks that no metric has a label named like the parts' label,
// which would be dropped.
func TestPartsHaveMetricsOfTheSameName(t *testing.T) {
	s := services{metrics: prometheus.NewRegistry()}
	for _, part := range []string{"node-1", "node-2"} {
		vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "informer_changes_total", Help: "Changes."}, []string{"service", "resource"})
		if err := s.registerer(part).Register(vec); err != nil {
			t.Errorf("%s: %v", part, err)
		}
		vec.WithLabelValues(part, "pods").Inc()
	}
	families, err := s.metrics.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 2 {
		t.Errorf("got metrics %v, %v", families, err)
	}
	list, err := os.ReadFile("../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(list), "`service`") || strings.Contains(string(list), "`"+partLabel+"`") {
		t.Errorf("a metric has the label %s, or the list of metrics could not be read", partLabel)
	}
}
