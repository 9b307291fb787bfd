package openapi_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest"
)

// served returns the served methods of every path of the table, by the path with {namespace} and
// {name}.
func served(table *scheme.Table) map[string][]string {
	all := map[string][]string{}
	for _, kind := range table.Kinds() {
		root := rootOf(kind)
		collection := path.Join(root, kind.Resource)
		if kind.Namespaced {
			if !kind.Virtual || kind.Observed {
				all[collection] = []string{http.MethodGet}
			}
			collection = path.Join(root, "namespaces/{namespace}", kind.Resource)
		}
		paths := []string{collection, collection + "/{name}"}
		for _, sub := range kind.Subresources {
			paths = append(paths, collection+"/{name}/"+sub.Name)
			if sub.Proxy {
				paths = append(paths, collection+"/{name}/"+sub.Name+"/{path}")
			}
		}
		for _, p := range paths {
			if target, ok := rest.ParsePath(table, p); ok {
				all[p] = target.Methods()
			}
		}
	}
	return all
}

func rootOf(kind *scheme.Kind) string {
	if kind.Group == "" {
		return path.Join("/api", kind.Version)
	}
	return path.Join("/apis", kind.Group, kind.Version)
}

// TestEveryKindIsDescribed compares the documents with the API: each path with its methods, and
// each kind and its list with a complete definition.
func TestEveryKindIsDescribed(t *testing.T) {
	h, table := handler(t), scheme.New()
	var v2 spec.Swagger
	if err := json.Unmarshal(get(t, h, "/openapi/v2", "application/json").Body.Bytes(), &v2); err != nil {
		t.Fatal(err)
	}
	want, v2Paths, v3Paths := served(table), map[string][]string{}, map[string][]string{}
	methods := func(ops map[string]bool) []string {
		var list []string
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
			if ops[method] {
				list = append(list, method)
			}
		}
		return list
	}
	for p, item := range v2.Paths.Paths {
		v2Paths[p] = methods(map[string]bool{"GET": item.Get != nil, "POST": item.Post != nil, "PUT": item.Put != nil, "PATCH": item.Patch != nil, "DELETE": item.Delete != nil})
	}
	kinds2, kinds3 := map[string]spec.Schema{}, map[string]*spec.Schema{}
	for _, definition := range v2.Definitions {
		for _, gvk := range gvks(definition.Extensions) {
			kinds2[gvk] = definition
		}
	}
	roots := map[string]bool{}
	for _, kind := range table.Kinds() {
		roots[rootOf(kind)] = true
	}
	for root := range roots {
		var v3 spec3.OpenAPI
		if err := json.Unmarshal(get(t, h, "/openapi/v3"+root, "application/json").Body.Bytes(), &v3); err != nil {
			t.Fatal(err)
		}
		for p, item := range v3.Paths.Paths {
			v3Paths[p] = methods(map[string]bool{"GET": item.Get != nil, "POST": item.Post != nil, "PUT": item.Put != nil, "PATCH": item.Patch != nil, "DELETE": item.Delete != nil})
		}
		for name, schema := range v3.Components.Schemas {
			for _, gvk := range gvks(schema.Extensions) {
				kinds3[root+" "+gvk] = schema
			}
			explained(t, root+" "+name, schema, v3.Components.Schemas)
		}
	}
	// Those of discovery are compared with Kubernetes' own documents, below test/upstream.
	discovery := func(p string, _ []string) bool { return strings.HasSuffix(p, "/") }
	before := len(v2Paths)
	maps.DeleteFunc(v2Paths, discovery)
	maps.DeleteFunc(v3Paths, discovery)
	if described := before - len(v2Paths); described < len(roots) {
		t.Errorf("OpenAPI v2 describes only %d paths of discovery", described)
	}
	if diff := cmp.Diff(want, v2Paths); diff != "" {
		t.Errorf("OpenAPI v2 describes other paths than the served ones (-served +described):\n%s", diff)
	}
	if diff := cmp.Diff(want, v3Paths); diff != "" {
		t.Errorf("OpenAPI v3 describes other paths than the served ones (-served +described):\n%s", diff)
	}
	for _, kind := range table.Kinds() {
		names := []string{kind.Kind}
		if !kind.Virtual || kind.Observed {
			names = append(names, kind.ListKind().Kind)
		}
		for _, name := range names {
			gvk := kind.Group + "/" + kind.Version + "/" + name
			two, ok2 := kinds2[gvk]
			three, ok3 := kinds3[rootOf(kind)+" "+gvk]
			if !ok2 || !ok3 {
				t.Errorf("%s is defined in v2: %t, in v3: %t, want both", gvk, ok2, ok3)
				continue
			}
			if diff := cmp.Diff(slices.Sorted(maps.Keys(two.Properties)), slices.Sorted(maps.Keys(three.Properties))); diff != "" || len(two.Properties) < 3 {
				t.Errorf("%s has other fields in v3 than in v2:\n%s", gvk, diff)
			}
		}
	}
}

// TestOperationsAreNamed: operations have Kubernetes' names, which generated clients use for their
// functions.
func TestOperationsAreNamed(t *testing.T) {
	var v2 spec.Swagger
	if err := json.Unmarshal(get(t, handler(t), "/openapi/v2", "application/json").Body.Bytes(), &v2); err != nil {
		t.Fatal(err)
	}
	pods := v2.Paths.Paths["/api/v1/namespaces/{namespace}/pods"]
	roles := v2.Paths.Paths["/apis/rbac.authorization.k8s.io/v1/clusterroles"]
	for want, op := range map[string]*spec.Operation{
		"core_v1 listCoreV1NamespacedPod":                                       pods.Get,
		"core_v1 deleteCoreV1CollectionNamespacedPod":                           pods.Delete,
		"core_v1 listCoreV1PodForAllNamespaces":                                 v2.Paths.Paths["/api/v1/pods"].Get,
		"core_v1 readCoreV1NamespacedPodLog":                                    v2.Paths.Paths["/api/v1/namespaces/{namespace}/pods/{name}/log"].Get,
		"rbacAuthorization_v1 createRbacAuthorizationV1ClusterRole":             roles.Post,
		"rbacAuthorization_v1 deleteRbacAuthorizationV1CollectionClusterRole":   roles.Delete,
		"flowcontrolApiserver_v1 replaceFlowcontrolApiserverV1FlowSchemaStatus": v2.Paths.Paths["/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/{name}/status"].Put,
		"apps_v1 patchAppsV1NamespacedDeploymentScale":                          v2.Paths.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"].Patch,
	} {
		if got := strings.Join(op.Tags, ",") + " " + op.ID; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestDeletedObjects: DELETE returns the objects of these kinds, and a Status for all others. In
// Kubernetes, these kinds' registries have ReturnDeletedObject. So has the one of namespaces, undocumented.
// Rules that taint devices had it only before their first stable version.
func TestDeletedObjects(t *testing.T) {
	var v2 spec.Swagger
	if err := json.Unmarshal(get(t, handler(t), "/openapi/v2", "application/json").Body.Bytes(), &v2); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"csidrivers", "csinodes", "deviceclasses", "persistentvolumeclaims", "persistentvolumes", "pods", "podtemplates",
		"resourceclaims", "resourceclaimtemplates", "resourcequotas", "resourceslices", "serviceaccounts", "services", "storageclasses", "volumeattachments", "volumeattributesclasses",
	}
	var got []string
	for p, item := range v2.Paths.Paths {
		collection, isItem := strings.CutSuffix(p, "/{name}")
		if !isItem || item.Delete == nil {
			continue
		}
		if ref := item.Delete.Responses.StatusCodeResponses[http.StatusOK].Schema.Ref.String(); !strings.HasSuffix(ref, ".Status") {
			got = append(got, path.Base(collection))
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("DELETE of other kinds returns the object (-want +got):\n%s", diff)
	}
}

// gvks returns the kinds whose type a definition is, as group/version/kind.
func gvks(extensions spec.Extensions) (list []string) {
	values, _ := extensions["x-kubernetes-group-version-kind"].([]any)
	for _, value := range values {
		if m, ok := value.(map[string]any); ok {
			list = append(list, strings.Join([]string{m["group"].(string), m["version"].(string), m["kind"].(string)}, "/"))
		}
	}
	return list
}

// explained checks that kubectl explain can describe each field of a schema, at every depth.
func explained(t *testing.T, where string, schema *spec.Schema, all map[string]*spec.Schema) {
	t.Helper()
	refs := []spec.Schema{}
	for name, property := range schema.Properties {
		// Kubernetes has no text for these fields either.
		untold := strings.Contains(where, "apiextensions.v1.JSONSchemaProps") || strings.Contains(where, "apiextensions.v1.ExternalDocumentation") ||
			strings.Contains(where, "meta.v1.GroupResource")
		if !untold && property.Description == "" && property.Ref.String() == "" && len(property.AllOf) == 0 {
			t.Errorf("%s.%s has no description", where, name)
		}
		if property.Ref.String() == "" && len(property.AllOf) == 0 && len(property.Type) == 0 && len(property.OneOf) == 0 && property.Items == nil {
			t.Errorf("%s.%s has no type", where, name)
		}
		refs = append(refs, property)
		refs = append(refs, property.AllOf...)
		if property.Items != nil && property.Items.Schema != nil {
			refs = append(refs, *property.Items.Schema)
			refs = append(refs, property.Items.Schema.AllOf...)
		}
		if property.AdditionalProperties != nil && property.AdditionalProperties.Schema != nil {
			refs = append(refs, *property.AdditionalProperties.Schema)
			refs = append(refs, property.AdditionalProperties.Schema.AllOf...)
		}
	}
	for _, s := range refs {
		if ref := s.Ref.String(); ref != "" && all[strings.TrimPrefix(ref, "#/components/schemas/")] == nil {
			t.Errorf("%s refers to %s, which is not defined", where, ref)
		}
	}
}

// TestDocumentsAreKept: the ETag of a document is the hash in the index, so a client that has the
// document need not read it again.
func TestDocumentsAreKept(t *testing.T) {
	h := handler(t)
	var index struct {
		Paths map[string]struct {
			URL string `json:"serverRelativeURL"`
		}
	}
	if err := json.Unmarshal(get(t, h, "/openapi/v3", "application/json").Body.Bytes(), &index); err != nil {
		t.Fatal(err)
	}
	for name, doc := range index.Paths {
		p, query, _ := strings.Cut(doc.URL, "?hash=")
		first := get(t, h, p, "application/json")
		if etag := first.Header().Get("Etag"); etag == "" || strings.Trim(etag, `"`) != query {
			t.Errorf("%s: the hash in the index is %s, the document's ETag %s", name, query, etag)
		}
	}
	if etag := get(t, h, "/openapi/v2", "application/json").Header().Get("Etag"); etag == "" {
		t.Error("v2 has no ETag")
	}
}

// BenchmarkDocuments measures the cost of building each document for the first time.
func BenchmarkDocuments(b *testing.B) {
	for name, p := range map[string]string{"v2": "/openapi/v2", "v3-index": "/openapi/v3", "v3-core": "/openapi/v3/api/v1", "v3-batch": "/openapi/v3/apis/batch/v1"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if res := get(b, handler(b), p, "application/json"); res.Code != http.StatusOK {
					b.Fatal(res.Code)
				}
			}
		})
	}
}
