package rest

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
)

// TestDryRunLeavesNoTrace: a dry run records no hop, whether the query or the body asks for it.
func TestDryRunLeavesNoTrace(t *testing.T) {
	for name, c := range map[string]struct {
		query string
		body  []string
		want  int
	}{
		"no dry run":   {want: 1},
		"in the query": {query: "?dryRun=All"},
		"in the body":  {body: []string{"All"}},
	} {
		recorder := trace.NewRecorder(10)
		call := &call{
			Handler: &Handler{Config: Config{Trace: recorder}}, r: httptest.NewRequest(http.MethodDelete, "/api/v1/namespaces/a/pods/b"+c.query, nil),
			req: Request{Target: Target{Kind: scheme.For[*corev1.Pod](scheme.New())}, Verb: "delete"},
		}
		if err := call.dry(c.body); err != nil {
			t.Fatal(err)
		}
		call.trace(nil)
		if hops := recorder.Hops(func(trace.Hop) bool { return true }); len(hops) != c.want {
			t.Errorf("%s: got hops %v, want %d", name, hops, c.want)
		}
	}
}
