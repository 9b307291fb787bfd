package observability_test

import (
	"slices"
	"testing"

	"github.com/garboard/garboard/test/observability"
)

func TestMetrics(t *testing.T) {
	for expression, want := range map[string][]string{
		"up": {"up"},
		`sum by (job, le) (rate(a_total{code=~"5..}",b="x\"y"}[5m])) / sum(rate(b_total[$__rate_interval]))`: {"a_total", "b_total"},
		"sum(a) by (b) > 3 and on (c) d offset 5m":                                                           {"a", "d"},
		"a * on (job, instance) group_left (node) b":                                                         {"a", "b"},
		"count(up == bool 0) or vector(0)":                                                                   {"up"},
		"time() - x_seconds < 7 * 24 * 3600 + 1e3":                                                           {"x_seconds"},
		`histogram_quantile(0.99, sum by (le) (rate(x_bucket[10m]))) > 1`:                                    {"x_bucket"},
		"recorded:by:me > 0.5 or recorded:by:me offset 1h":                                                   {"recorded:by:me"},
		"topk(10, a - on (group, resource) max by (group, resource) (b))":                                    {"a", "b"},
		"topk by (x) (3, a)":         {"a"},
		`absent(up{job='a}b'} == 1)`: {"up"},
		"vector(0)":                  nil,
	} {
		if got := observability.Metrics(expression); !slices.Equal(got, want) {
			t.Errorf("%s\nreads %v, want %v", expression, got, want)
		}
	}
}

// FuzzMetrics checks that no expression, however broken, makes Metrics panic.
func FuzzMetrics(f *testing.F) {
	f.Add(`sum by (a) (rate(b{c="d"}[5m]))`)
	f.Add(`x{"`)
	f.Add(`by ([`)
	f.Fuzz(func(_ *testing.T, expression string) { observability.Metrics(expression) })
}
