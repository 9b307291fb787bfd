package peers

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestResourceOf(t *testing.T) {
	jobs := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	for path, want := range map[string]schema.GroupVersionResource{
		"/apis/batch/v1/jobs":                       jobs,
		"/apis/batch/v1/jobs/":                      jobs,
		"/apis/batch/v1/watch/jobs":                 jobs,
		"/apis/batch/v1/namespaces/a/jobs":          jobs,
		"/apis/batch/v1/namespaces/a/jobs/b/status": jobs,
		"/apis/batch/v1/watch/namespaces/a/jobs/b":  jobs,
		"/apis/batch/v1":                            {Group: "batch", Version: "v1"},
		"/api/v1/namespaces":                        {Version: "v1", Resource: "namespaces"},
		"/api/v1/namespaces/a":                      {Version: "v1", Resource: "namespaces"},
		"/api/v1/nodes/a/proxy/apis/batch/v1/jobs":  {Version: "v1", Resource: "nodes"},
		"/api/v1":     {Version: "v1"},
		"/apis/batch": {},
		"/apis":       {},
		"/api":        {},
		"/metrics":    {},
		"/":           {},
		"":            {},
	} {
		if got, ok := resourceOf(path); got != want || ok != (want != schema.GroupVersionResource{}) {
			t.Errorf("%s: got %v, %v, want %v", path, got, ok, want)
		}
	}
}

// TestCompare checks what is taken from a peer: what this server does not have, but for definitions that it had. Those
// are gone everywhere, and the peer was asked before.
func TestCompare(t *testing.T) {
	table := scheme.New()
	gone := schema.GroupVersionKind{Group: "example.org", Version: "v1", Kind: "Gone"}
	if err := table.Install(&scheme.Kind{GroupVersionKind: gone, Custom: true, Resource: "gones", Singular: "gone", StoragePrefix: "example.org/gones"}); err != nil {
		t.Fatal(err)
	}
	p := New(Config{Table: table, Elsewhere: &discovery.Others{}, Registerer: prometheus.NewRegistry()})
	one := func(group, version string, resources ...string) apidiscoveryv2.APIGroupDiscovery {
		served := apidiscoveryv2.APIVersionDiscovery{Version: version}
		for _, resource := range resources {
			served.Resources = append(served.Resources, apidiscoveryv2.APIResourceDiscovery{Resource: resource})
		}
		return apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: group}, Versions: []apidiscoveryv2.APIVersionDiscovery{served}}
	}
	groups := []apidiscoveryv2.APIGroupDiscovery{
		one("", "v1", "pods", "gizmos"), one("example.org", "v1", "gones"), one("example.org", "v2", "gones"), one("apps", "v1", "deployments"),
	}
	first, second := peerWith("a", groups), peerWith("b", groups[:1])
	p.compare(nil)
	table.Remove(gone)
	found := p.compare([]*peer{first, second})
	want := map[schema.GroupVersionResource][]*peer{
		{Version: "v1", Resource: "gizmos"}:                      {first, second},
		{Group: "example.org", Version: "v2", Resource: "gones"}: {first},
	}
	if !maps.EqualFunc(found.extra, want, slices.Equal) {
		t.Errorf("got %v, want %v", found.extra, want)
	}
	if len(found.apis) != 2 || len(found.apis[0].Resources) != 1 || !found.apis[0].Partly || !found.apis[0].Current {
		t.Errorf("discovery gets %+v", found.apis)
	}
}

func peerWith(name string, groups []apidiscoveryv2.APIGroupDiscovery) *peer {
	return &peer{name: name, documents: map[string]document{"/apis": {groups: groups}}}
}

// FuzzResourceOf checks that no path is taken for a resource that it does not name.
func FuzzResourceOf(f *testing.F) {
	f.Add("/apis/batch/v1/namespaces/a/jobs/b/status")
	f.Fuzz(func(t *testing.T, path string) {
		gvr, ok := resourceOf(path)
		for _, part := range []string{gvr.Group, gvr.Version, gvr.Resource} {
			if strings.Contains(part, "/") || !strings.Contains(path, part) || !ok && part != "" && part != gvr.Version {
				t.Errorf("%q: %v", path, gvr)
			}
		}
	})
}
