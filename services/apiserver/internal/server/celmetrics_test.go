package server

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestForwarder checks that only the named histograms pass, with what they count.
func TestForwarder(t *testing.T) {
	from := prometheus.NewRegistry()
	wanted := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "wanted", Help: "Theirs.", Buckets: []float64{1, 2}})
	other := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "other"})
	from.MustRegister(wanted, other)
	for _, seconds := range []float64{0.5, 1.5, 3} {
		wanted.Observe(seconds)
		other.Observe(seconds)
	}
	ours := prometheus.NewRegistry()
	ours.MustRegister(newForwarder(from, map[string]string{"wanted": "Ours.", "absent": "Nothing."}))
	families, err := ours.Gather()
	if err != nil || len(families) != 1 || len(families[0].GetMetric()) != 1 {
		t.Fatalf("got %v, %v, want the one histogram", families, err)
	}
	got := families[0].GetMetric()[0].GetHistogram()
	if families[0].GetName() != "wanted" || families[0].GetHelp() != "Ours." || got.GetSampleCount() != 3 || got.GetSampleSum() != 5 ||
		len(got.GetBucket()) != 2 || got.GetBucket()[1].GetCumulativeCount() != 2 {
		t.Errorf("got %v", families[0])
	}
}
