package discovery_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/answer"
	"github.com/garboard/garboard/services/apiserver/internal/discovery"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClientGo asks with client-go's own discovery client, in both forms.
func TestClientGo(t *testing.T) {
	table := scheme.New()
	handler, err := discovery.New(table, answer.New(table, slog.New(slog.DiscardHandler)), "127.0.0.1:6443")
	if err != nil {
		t.Fatal(err)
	}
	var seen []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r.URL.Path)
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	client, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, legacy := range map[string]bool{"aggregated": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			client.UseLegacyDiscovery, seen = legacy, nil
			groups, lists, err := client.ServerGroupsAndResources()
			if err != nil {
				t.Fatal(err)
			}
			if !legacy && len(seen) != 2 {
				t.Errorf("the aggregated form took these requests: %v", seen)
			}
			if len(groups) != 12 {
				t.Errorf("groups: %v", groups)
			}
			found := map[schema.GroupVersionResource]bool{}
			for _, list := range lists {
				gv, err := schema.ParseGroupVersion(list.GroupVersion)
				if err != nil {
					t.Fatal(err)
				}
				for _, resource := range list.APIResources {
					found[gv.WithResource(resource.Name)] = true
					if resource.Name == "pods" && (!resource.Namespaced || resource.Kind != "Pod" || !slices.Contains(resource.Verbs, "watch") || !slices.Equal(resource.ShortNames, []string{"po"})) {
						t.Errorf("pods are told as %+v", resource)
					}
					if resource.Name == "namespaces" && slices.Contains(resource.Verbs, "deletecollection") {
						t.Errorf("namespaces are told as %+v", resource)
					}
					if resource.Name == "tokenreviews" && !slices.Equal(resource.Verbs, []string{"create"}) {
						t.Errorf("tokenreviews are told as %+v", resource)
					}
					if resource.Name == "pods/eviction" && (resource.Kind != "Eviction" || resource.Group != "policy" || resource.Version != "v1" || !slices.Equal(resource.Verbs, []string{"create"})) {
						t.Errorf("pods/eviction is told as %+v", resource)
					}
					if resource.Name == "deployments/scale" && (resource.Kind != "Scale" || resource.Group != "autoscaling") {
						t.Errorf("deployments/scale is told as %+v", resource)
					}
				}
			}
			for _, kind := range table.Kinds() {
				gvr := kind.GroupVersionResource()
				if !found[gvr] {
					t.Errorf("%s is not told", gvr)
				}
				for _, s := range kind.Subresources {
					if gvr.Resource = kind.Resource + "/" + s; !found[gvr] {
						t.Errorf("%s is not told", gvr)
					}
				}
			}
		})
	}
}

func TestAnswers(t *testing.T) {
	table := scheme.New()
	handler, err := discovery.New(table, answer.New(table, slog.New(slog.DiscardHandler)), "")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path, accept, match string) *httptest.ResponseRecorder {
		req := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		req.Header.Set("Accept", accept)
		req.Header.Set("If-None-Match", match)
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		return res
	}
	const together = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	first := ask(http.MethodGet, "/apis", together+",application/json", "")
	if got := first.Header().Get("Content-Type"); got != together {
		t.Errorf("content type %q", got)
	}
	if res := ask(http.MethodGet, "/apis", together, first.Header().Get("Etag")); res.Code != http.StatusNotModified || res.Body.Len() != 0 {
		t.Errorf("asked again with the ETag: %d", res.Code)
	}
	if res := ask(http.MethodGet, "/apis/apps/v1", together+",application/json", ""); res.Header().Get("Content-Type") != "application/json" {
		t.Errorf("a single version is told as %q", res.Header().Get("Content-Type"))
	}
	if res := ask(http.MethodPost, "/apis", "", ""); res.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", res.Code)
	}
	if res := ask(http.MethodGet, "/apis/none", "", ""); res.Code != http.StatusNotFound || handler.Serves("/apis/none") {
		t.Errorf("a group that is not served: %d", res.Code)
	}
	if res := ask(http.MethodGet, "/apis", "image/png", ""); res.Code != http.StatusNotAcceptable {
		t.Errorf("as a picture: %d", res.Code)
	}
}
