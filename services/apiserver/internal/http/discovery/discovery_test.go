package discovery_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/apiservices"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestClientGo reads discovery with client-go's own discovery client, in both forms.
func TestClientGo(t *testing.T) {
	table := scheme.New()
	handler := discovery.New(discovery.Config{
		Table: table, Encoder: response.New(table, slog.New(slog.DiscardHandler)), Addresses: discovery.Addresses{External: "127.0.0.1:6443"}, Priority: priority,
	})
	var seen atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Add(1)
		handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	client, err := clientdiscovery.NewDiscoveryClientForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	for name, legacy := range map[string]bool{"aggregated": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			client.UseLegacyDiscovery = legacy
			seen.Store(0)
			groups, lists, err := client.ServerGroupsAndResources()
			if err != nil {
				t.Fatal(err)
			}
			if n := seen.Load(); !legacy && n != 2 {
				t.Errorf("the aggregated form took %d requests, want 2", n)
			}
			var order []string
			for _, group := range groups {
				for _, version := range group.Versions {
					order = append(order, version.GroupVersion)
				}
			}
			if diff := cmp.Diff(preferred(), order); diff != "" {
				t.Errorf("groups and versions (-want +got):\n%s", diff)
			}
			found := map[schema.GroupVersionResource]bool{}
			hashes := map[string]string{}
			for _, list := range lists {
				gv, err := schema.ParseGroupVersion(list.GroupVersion)
				if err != nil {
					t.Fatal(err)
				}
				for _, resource := range list.APIResources {
					found[gv.WithResource(resource.Name)] = true
					hashes[list.GroupVersion+" "+resource.Name] = resource.StorageVersionHash
					if resource.Name == "pods" && gv.Group == "" && (!resource.Namespaced || resource.Kind != "Pod" || !slices.Contains(resource.Verbs, "watch") || !slices.Equal(resource.ShortNames, []string{"po"})) {
						t.Errorf("pods are described as %+v", resource)
					}
					if gv.Group == "metrics.k8s.io" && (resource.SingularName != "" || !slices.Equal(resource.Verbs, []string{"get", "list"}) || resource.StorageVersionHash != "") {
						t.Errorf("metrics are described as %+v", resource)
					}
					if resource.Name == "namespaces" && slices.Contains(resource.Verbs, "deletecollection") {
						t.Errorf("namespaces are described as %+v", resource)
					}
					if resource.Name == "tokenreviews" && !slices.Equal(resource.Verbs, []string{"create"}) {
						t.Errorf("tokenreviews are described as %+v", resource)
					}
					if resource.Name == "pods/eviction" && (resource.Kind != "Eviction" || resource.Group != "policy" || resource.Version != "v1" || !slices.Equal(resource.Verbs, []string{"create"})) {
						t.Errorf("pods/eviction is described as %+v", resource)
					}
					if resource.Name == "deployments/scale" && (resource.Kind != "Scale" || resource.Group != "autoscaling") {
						t.Errorf("deployments/scale is described as %+v", resource)
					}
				}
			}
			for resource, want := range map[string]string{
				"v1 pods": "xPOwRZ+Yhw8=", "autoscaling/v1 horizontalpodautoscalers": "qwQve8ut294=", "autoscaling/v2 horizontalpodautoscalers": "qwQve8ut294=",
				"apiextensions.k8s.io/v1 customresourcedefinitions":   "jfWCUB31mvA=", // of v1beta1
				"certificates.k8s.io/v1 clustertrustbundles":          "v5yhuVertL4=", // of v1beta1
				"resource.k8s.io/v1 devicetaintrules":                 "i+85+TcIKpA=", // of v1beta2
				"storagemigration.k8s.io/v1 storageversionmigrations": "pCjmmKOkLy4=", // of v1beta1
				"v1 pods/status": "", "authentication.k8s.io/v1 tokenreviews": "",
			} {
				// The aggregated form has no such field.
				if got := hashes[resource]; legacy && got != want {
					t.Errorf("%s has the hash %q of its stored version, want %q", resource, got, want)
				}
			}
			for _, kind := range table.Kinds() {
				gvr := kind.GroupVersionResource()
				if !found[gvr] {
					t.Errorf("%s is missing", gvr)
				}
				for _, s := range kind.Subresources {
					if gvr.Resource = kind.Resource + "/" + s.Name; !found[gvr] {
						t.Errorf("%s is missing", gvr)
					}
				}
			}
		})
	}
}

// priority is that of the APIServices.
func priority(kind *scheme.Kind) discovery.Priority {
	group, version := apiservices.Priority(kind)
	return discovery.Priority{Group: group, Version: version}
}

// preferred returns the groups and versions in Kubernetes' order, in which kubectl looks for a
// resource without a group.
func preferred() []string {
	return []string{
		"v1", "apiregistration.k8s.io/v1", "apps/v1", "events.k8s.io/v1", "authentication.k8s.io/v1",
		"authorization.k8s.io/v1", "autoscaling/v2", "autoscaling/v1", "batch/v1", "certificates.k8s.io/v1",
		"networking.k8s.io/v1", "policy/v1", "rbac.authorization.k8s.io/v1", "storage.k8s.io/v1",
		"admissionregistration.k8s.io/v1", "apiextensions.k8s.io/v1", "scheduling.k8s.io/v1", "coordination.k8s.io/v1", "node.k8s.io/v1",
		"discovery.k8s.io/v1", "resource.k8s.io/v1", "flowcontrol.apiserver.k8s.io/v1", "storagemigration.k8s.io/v1", "metrics.k8s.io/v1beta1",
	}
}

func TestAnswers(t *testing.T) {
	table := scheme.New()
	handler := discovery.New(discovery.Config{Table: table, Encoder: response.New(table, slog.New(slog.DiscardHandler))})
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
		t.Errorf("got content type %q, want %q", got, together)
	}
	if res := ask(http.MethodGet, "/apis", together, first.Header().Get("Etag")); res.Code != http.StatusNotModified || res.Body.Len() != 0 {
		t.Errorf("a request with the ETag: got %d, want 304", res.Code)
	}
	if res := ask(http.MethodGet, "/apis/apps/v1", together+",application/json", ""); res.Header().Get("Content-Type") != "application/json" {
		t.Errorf("a single version has the content type %q", res.Header().Get("Content-Type"))
	}
	for path, code := range map[string]int{"/api": 405, "/api/v1": 405, "/apis/apps/v1": 405, "/apis": 200, "/apis/apps": 200} {
		if res := ask(http.MethodPost, path, "", ""); res.Code != code {
			t.Errorf("POST %s: %d, want %d", path, res.Code, code)
		}
	}
	if res := ask(http.MethodGet, "/apis/none", "", ""); res.Code != http.StatusNotFound || handler.Serves("/apis/none") {
		t.Errorf("a group that is not served: %d", res.Code)
	}
	if res := ask(http.MethodGet, "/apis", "image/png", ""); res.Code != http.StatusNotAcceptable {
		t.Errorf("as an image: %d", res.Code)
	}
}

// TestAddresses: a client in the range of services also gets the address of the Service.
func TestAddresses(t *testing.T) {
	table := scheme.New()
	handler := discovery.New(discovery.Config{Table: table, Encoder: response.New(table, slog.New(slog.DiscardHandler)), Addresses: discovery.Addresses{
		External: "192.0.2.1:6443", Services: netip.MustParsePrefix("10.96.0.0/12"), Internal: "10.96.0.1:443",
	}})
	everyone := metav1.ServerAddressByClientCIDR{ClientCIDR: "0.0.0.0/0", ServerAddress: "192.0.2.1:6443"}
	service := metav1.ServerAddressByClientCIDR{ClientCIDR: "10.96.0.0/12", ServerAddress: "10.96.0.1:443"}
	for from, want := range map[string][]metav1.ServerAddressByClientCIDR{
		"192.0.2.7:1234": {everyone}, "10.97.1.2:1234": {everyone, service}, "[::ffff:10.97.1.2]:1234": {everyone, service}, "[2001:db8::1]:1": {everyone},
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api", nil)
		req.RemoteAddr = from
		res := httptest.NewRecorder()
		handler.ServeHTTP(res, req)
		var got metav1.APIVersions
		if err := json.Unmarshal(res.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.ServerAddressByClientCIDRs, want) {
			t.Errorf("a client at %s gets %v, want %v", from, got.ServerAddressByClientCIDRs, want)
		}
	}
}
