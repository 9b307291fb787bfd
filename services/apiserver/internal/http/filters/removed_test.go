package filters

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
)

// TestMetricsOfRemovedKinds checks that a custom kind has series while it is served, and not for ever.
func TestMetricsOfRemovedKinds(t *testing.T) {
	table, registry := scheme.New(), prometheus.NewRegistry()
	m := NewMetrics(registry, table)
	gadget := &scheme.Kind{
		GroupVersionKind: schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gadget"}, Custom: true,
		Resource: "gadgets", StoragePrefix: "example.org/gadgets",
	}
	other := *gadget
	other.Kind, other.Resource, other.StoragePrefix = "Other", "others", "example.org/others"
	if err := table.Install(gadget, &other); err != nil {
		t.Fatal(err)
	}
	request := func(group, resource string, long bool) func(int, time.Duration) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if err != nil {
			t.Fatal(err)
		}
		return m.begin(r, []string{"GET", group, "v1", resource, "", "cluster", "apiserver"}, long)
	}
	series := func(resource string) (found []string) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, metric := range family.GetMetric() {
				if strings.Contains(metric.String(), `"`+resource+`"`) {
					found = append(found, family.GetName())
				}
			}
		}
		return found
	}
	watch := request("example.org", "gadgets", true)
	for _, resource := range []string{"gadgets", "others"} {
		request("example.org", resource, false)(http.StatusOK, time.Millisecond)
	}
	request("", "pods", false)(http.StatusOK, time.Millisecond)
	m.Sent(gadget)
	if got := series("gadgets"); len(got) != 4 {
		t.Fatalf("a served kind has the series %q", got)
	}
	table.Remove(gadget.GroupVersionKind)
	request("", "pods", false)(http.StatusOK, time.Millisecond)
	if got := series("gadgets"); len(got) != 0 {
		t.Errorf("a kind that is gone has the series %q", got)
	}
	watch(http.StatusOK, time.Second)
	if got := series("gadgets"); len(got) != 0 {
		t.Errorf("after a watch that ended later, a kind that is gone has the series %q", got)
	}
	table.Remove(other.GroupVersionKind)
	request("", "pods", false)(http.StatusOK, time.Millisecond)
	if got := append(series("gadgets"), series("others")...); len(got) != 0 {
		t.Errorf("kinds that are gone have the series %q", got)
	}
	if got := series("pods"); len(got) == 0 {
		t.Error("a built-in kind has no series")
	}
}
