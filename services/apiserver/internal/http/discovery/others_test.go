package discovery_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
)

// changing is a Source whose APIs change.
type changing struct{ now *discovery.Others }

func (c *changing) Discovery() *discovery.Others { return c.now }

func api(group, version string, groupPriority, versionPriority int32, resource string) discovery.API {
	return discovery.API{
		GroupVersion: schema.GroupVersion{Group: group, Version: version},
		Priority:     discovery.Priority{Group: groupPriority, Version: versionPriority},
		Served: discovery.Served{Current: true, Resources: []apidiscoveryv2.APIResourceDiscovery{{
			Resource: resource, ResponseKind: &metav1.GroupVersionKind{Kind: "Flunder"}, Scope: apidiscoveryv2.ScopeNamespace, Verbs: []string{"get", "list"},
		}}},
	}
}

// TestOthers checks what clients learn of APIs that other servers serve, beside those of this one.
func TestOthers(t *testing.T) {
	table := scheme.New()
	source := &changing{now: &discovery.Others{}}
	handler := discovery.New(discovery.Config{Table: table, Encoder: response.New(table, slog.New(slog.DiscardHandler)), Source: source, Priority: priority})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !handler.Serves(r.URL.Path) {
			http.NotFound(w, r)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	groups := func(plain bool) (order []string, preferred map[string]string) {
		client, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		client.UseLegacyDiscovery = plain
		found, err := client.ServerGroups()
		if err != nil {
			t.Fatal(err)
		}
		preferred = map[string]string{}
		for _, group := range found.Groups {
			for _, version := range group.Versions {
				order = append(order, version.GroupVersion)
			}
			preferred[group.Name] = group.PreferredVersion.Version
		}
		return order, preferred
	}
	built := preferred()
	at := func(name string) int { return slices.Index(built, name) }
	for _, step := range []struct {
		name string
		apis []discovery.API
		want []string
	}{
		{"none", nil, built},
		{"the last", []discovery.API{api("wardle.example.com", "v1", 50, 15, "flunders")}, append(slices.Clone(built), "wardle.example.com/v1")},
		{"two of a group, and one before all but this server's own", []discovery.API{
			api("wardle.example.com", "v1alpha1", 50, 10, "flunders"), api("wardle.example.com", "v1", 50, 15, "flunders"), api("a.example.com", "v1", 20000, 1, "things"),
		}, append(slices.Insert(slices.Clone(built), at("apps/v1"), "a.example.com/v1"), "wardle.example.com/v1", "wardle.example.com/v1alpha1")},
		{"versions of the same priority", []discovery.API{
			api("w.example.com", "v1beta1", 50, 15, "flunders"), api("w.example.com", "v2", 50, 15, "flunders"), api("w.example.com", "v10", 50, 15, "flunders"),
		}, append(slices.Clone(built), "w.example.com/v10", "w.example.com/v2", "w.example.com/v1beta1")},
		{"another version of a group of this server", []discovery.API{api("batch", "v2", 17400, 20, "jobs")},
			slices.Insert(slices.Clone(built), at("batch/v1"), "batch/v2")},
		{"a version of this server", []discovery.API{api("batch", "v1", 17400, 15, "jobs")}, built},
	} {
		t.Run(step.name, func(t *testing.T) {
			source.now = &discovery.Others{APIs: step.apis}
			for _, plain := range []bool{true, false} {
				order, preferred := groups(plain)
				if !slices.Equal(order, step.want) {
					t.Errorf("plain %t: got %q,\nwant %q", plain, order, step.want)
				}
				if step.name[:3] == "two" && preferred["wardle.example.com"] != "v1" {
					t.Errorf("the preferred version is %q", preferred["wardle.example.com"])
				}
			}
			for _, one := range step.apis {
				if path := "/apis/" + one.String(); handler.Serves(path) {
					t.Errorf("%s is served here", path)
				}
				if path := "/apis/" + one.Group; !handler.Serves(path) {
					t.Errorf("%s is not served", path)
				}
			}
		})
	}
	stale := api("wardle.example.com", "v1", 50, 15, "flunders")
	stale.Current = false
	source.now = &discovery.Others{APIs: []discovery.API{stale, api("batch", "v1", 17400, 15, "tasks")}}
	client, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	_, resources, failed, err := client.GroupsAndMaybeResources()
	if err != nil {
		t.Fatal(err)
	}
	wardle, batch := schema.GroupVersion{Group: "wardle.example.com", Version: "v1"}, schema.GroupVersion{Group: "batch", Version: "v1"}
	if failed[wardle] == nil || resources[wardle] != nil {
		t.Errorf("a server that does not answer: %v, %v", failed[wardle], resources[wardle])
	}
	if found := resources[batch]; found == nil || len(found.APIResources) != 1 || found.APIResources[0].Name != "tasks" {
		t.Errorf("another server's own version of a group: %+v", found)
	}
}
