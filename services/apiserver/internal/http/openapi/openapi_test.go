package openapi_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/openapi"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/builtin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func handler(t testing.TB) http.Handler {
	t.Helper()
	table := scheme.New()
	catalog, err := builtin.Catalog(table, builtin.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return openapi.New(table, "v1.37.2", catalog.Of, &openapi.Others{})
}

func get(t testing.TB, h http.Handler, path, accept string) *httptest.ResponseRecorder {
	t.Helper()
	req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	req.Header.Set("Accept", accept)
	res := httptest.NewRecorder()
	h.ServeHTTP(res, req)
	return res
}

func TestV3(t *testing.T) {
	h := handler(t)
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		}
	}
	if err := json.Unmarshal(get(t, h, "/openapi/v3", "application/json").Body.Bytes(), &index); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"api/v1", "apis/apps/v1", "apis/coordination.k8s.io/v1", "apis/discovery.k8s.io/v1", "apis/events.k8s.io/v1"} {
		if !strings.HasPrefix(index.Paths[path].URL, "/openapi/v3/"+path+"?hash=") {
			t.Errorf("the index has for %s the URL %q", path, index.Paths[path].URL)
		}
	}
	res := get(t, h, "/openapi/v3/apis/apps/v1", "application/json")
	if res.Code != http.StatusOK || res.Header().Get("Etag") == "" {
		t.Fatalf("apps/v1: %d, ETag %q", res.Code, res.Header().Get("Etag"))
	}
	var document spec3.OpenAPI
	if err := json.Unmarshal(res.Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	item := document.Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
	if item == nil || item.Patch == nil {
		t.Fatal("the PATCH of a deployment is missing")
	}
	if gvk, ok := item.Patch.Extensions["x-kubernetes-group-version-kind"].(map[string]any); !ok || gvk["kind"] != "Deployment" || gvk["group"] != "apps" {
		t.Errorf("the PATCH has the kind %v", item.Patch.Extensions["x-kubernetes-group-version-kind"])
	}
	if !slices.ContainsFunc(item.Patch.Parameters, func(p *spec3.Parameter) bool { return p.Name == "fieldValidation" && p.In == "query" }) {
		t.Error("the PATCH has no parameter fieldValidation, from which kubectl learns that the server validates")
	}
	schema := document.Components.Schemas["io.k8s.api.apps.v1.Deployment"]
	if schema == nil || schema.Properties["spec"].Description == "" {
		t.Errorf("the schema of Deployment is %v", schema)
	}
	strategy := document.Components.Schemas["io.k8s.api.apps.v1.DeploymentStrategy"]
	if strategy == nil || !slices.Equal(strategy.Properties["type"].Enum, []any{"Recreate", "RollingUpdate"}) {
		t.Errorf("the types of a deployment's strategy are not listed: %v", strategy)
	}
	if res := get(t, h, "/openapi/v3/apis/none/v1", "application/json"); res.Code != http.StatusNotFound {
		t.Errorf("a group that is not served: got %d, want 404", res.Code)
	}
}

func TestV2(t *testing.T) {
	h := handler(t)
	res := get(t, h, "/openapi/v2", "application/json")
	var document spec.Swagger
	if err := json.Unmarshal(res.Body.Bytes(), &document); err != nil {
		t.Fatalf("%d: %v", res.Code, err)
	}
	if gvks, ok := document.Definitions["io.k8s.api.core.v1.Pod"].Extensions["x-kubernetes-group-version-kind"].([]any); !ok || len(gvks) != 1 {
		t.Errorf("the definition of Pod has the extensions %v", document.Definitions["io.k8s.api.core.v1.Pod"].Extensions)
	}
	for _, path := range []string{
		"/api/v1/pods", "/api/v1/namespaces/{namespace}/pods/{name}/log", "/api/v1/nodes/{name}/status", "/apis/apps/v1/namespaces/{namespace}/replicasets/{name}/scale",
		"/api/v1/namespaces/{namespace}/pods/{name}/eviction", "/apis/authentication.k8s.io/v1/tokenreviews",
		"/apis/authorization.k8s.io/v1/namespaces/{namespace}/localsubjectaccessreviews",
		"/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}/approval",
	} {
		if _, ok := document.Paths.Paths[path]; !ok {
			t.Errorf("%s is not described", path)
		}
	}
	if reviews := document.Paths.Paths["/apis/authentication.k8s.io/v1/tokenreviews"]; reviews.Get != nil || reviews.Delete != nil || reviews.Post == nil {
		t.Error("token reviews are described as if they were stored")
	}
	if namespaces := document.Paths.Paths["/api/v1/namespaces"]; namespaces.Delete != nil {
		t.Error("the deletion of all namespaces is described")
	}
	for name, definition := range document.Definitions {
		for property, schema := range definition.Properties {
			if ref := schema.Ref.String(); ref != "" {
				if _, ok := document.Definitions[strings.TrimPrefix(ref, "#/definitions/")]; !ok {
					t.Errorf("%s.%s refers to %s, which is not defined", name, property, ref)
				}
			}
		}
	}
	const protobuf = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
	if res := get(t, h, "/openapi/v2", protobuf); res.Code != http.StatusOK || res.Body.Len() == 0 {
		t.Errorf("as protobuf: %d, %d bytes", res.Code, res.Body.Len())
	}
}

// TestSubresources checks what the special subresources are described to hold, and the options of
// their queries.
func TestSubresources(t *testing.T) {
	var document spec.Swagger
	if err := json.Unmarshal(get(t, handler(t), "/openapi/v2", "application/json").Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	const core = "/api/v1/namespaces/{namespace}/"
	for path, c := range map[string]struct {
		operation func(item spec.PathItem) *spec.Operation
		holds     string // the end of the reference to its definition; empty for a text
		option    string
	}{
		core + "pods/{name}/log":                                        {reading, "", "tailLines"},
		core + "pods/{name}/status":                                     {reading, "core.v1.Pod", "pretty"},
		core + "pods/{name}/binding":                                    {creating, "core.v1.Binding", "fieldValidation"},
		core + "pods/{name}/eviction":                                   {creating, "policy.v1.Eviction", "dryRun"},
		core + "serviceaccounts/{name}/token":                           {creating, "authentication.v1.TokenRequest", "dryRun"},
		"/api/v1/namespaces/{name}/finalize":                            {updating, "core.v1.Namespace", "dryRun"},
		"/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale": {updating, "autoscaling.v1.Scale", "dryRun"},
	} {
		item := document.Paths.Paths[path]
		operation := c.operation(item)
		if operation == nil {
			t.Errorf("%s is not described", path)
			continue
		}
		schema := operation.Responses.StatusCodeResponses[http.StatusOK].Schema
		if schema == nil || c.holds == "" && !schema.Type.Contains("string") || !strings.HasSuffix(schema.Ref.String(), c.holds) {
			t.Errorf("%s: the response is %+v, want %s", path, schema, c.holds)
		}
		// What all operations of a path have in common belongs to the path.
		if !slices.ContainsFunc(slices.Concat(item.Parameters, operation.Parameters), func(p spec.Parameter) bool {
			if ref, ok := strings.CutPrefix(p.Ref.String(), "#/parameters/"); ok {
				p = document.Parameters[ref]
			}
			return p.Name == c.option && p.In == "query"
		}) {
			t.Errorf("%s has no parameter %s", path, c.option)
		}
	}
}

func reading(item spec.PathItem) *spec.Operation  { return item.Get }
func creating(item spec.PathItem) *spec.Operation { return item.Post }
func updating(item spec.PathItem) *spec.Operation { return item.Put }
