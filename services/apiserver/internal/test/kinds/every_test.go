package kinds_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/samples"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// Media types and content types of patches.
const (
	asJSON     = runtime.ContentTypeJSON
	asYAML     = runtime.ContentTypeYAML
	asProtobuf = runtime.ContentTypeProtobuf
	asTable    = "application/json;as=Table;g=meta.k8s.io;v=v1"
	jsonPatch  = string(types.JSONPatchType)
	mergePatch = string(types.MergePatchType)
	strategic  = string(types.StrategicMergePatchType)
)

// every is one kind, for a test that runs for each kind.
type every struct {
	*testing.T
	etcd   *etcdtest.Server
	server *harness.Server
	client *http.Client
	table  *scheme.Table
	set    *samples.Set
	kind   *scheme.Kind
	// namespace is the kind's namespace in this test; empty if the kind is not namespaced.
	namespace string
	// impersonated is the user as whom requests are sent; empty for the administrator.
	impersonated string
}

// paths returns the names of the kind's subresources, and the empty one of the kind itself.
func (e *every) paths() []string {
	names := []string{""}
	for _, s := range e.kind.Subresources {
		names = append(names, s.Name)
	}
	return names
}

// forEvery runs a test for every kind of the table, on one server.
func forEvery(t *testing.T, test func(e *every)) {
	t.Helper()
	etcd, table := etcdtest.Start(t), scheme.New()
	s := harness.New(t, etcd.Endpoints())
	s.Start()
	set, err := samples.New(table)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range table.Kinds() {
		t.Run(kind.Resource+"."+kind.GroupVersion().String(), func(t *testing.T) {
			e := &every{T: t, etcd: etcd, server: s, client: client, table: table, set: set, kind: kind}
			if kind.Namespaced {
				e.namespace = strings.ReplaceAll(kind.Resource+"-"+kind.Group+"-"+kind.Version, ".", "-")
				e.want(http.StatusCreated, e.do(http.MethodPost, "/api/v1/namespaces", asJSON, asJSON, fmt.Sprintf(`{"metadata":{"name":%q}}`, e.namespace)))
				e.want(http.StatusCreated, e.do(http.MethodPost, "/api/v1/namespaces/"+e.namespace+"/serviceaccounts", asJSON, asJSON, `{"metadata":{"name":"default"}}`))
			}
			test(e)
		})
	}
}

// got is a response.
type got struct {
	what   string
	code   int
	header http.Header
	body   []byte
}

// message returns the message of a Status, or else the body.
func (g got) message() string {
	var status metav1.Status
	if err := json.Unmarshal(g.body, &status); err == nil && status.Kind == "Status" && status.Message != "" {
		return status.Message
	}
	return string(g.body)
}

// do sends a request.
func (e *every) do(method, path, contentType, accept, body string) got {
	e.Helper()
	req, err := http.NewRequestWithContext(e.Context(), method, e.server.URL+path, strings.NewReader(body))
	if err != nil {
		e.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Content-Type", contentType)
	if e.impersonated != "" {
		req.Header.Set("Impersonate-User", e.impersonated)
	}
	res, err := e.client.Do(req)
	if err != nil {
		e.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		e.Fatal(err)
	}
	return got{method + " " + path, res.StatusCode, res.Header, data}
}

// want fails the test unless the response has the code.
func (e *every) want(code int, g got) got {
	e.Helper()
	if g.code != code {
		e.Fatalf("%s: %d %s, want %d", g.what, g.code, g.message(), code)
	}
	return g
}

// wantMessage reports an error unless the response has the code and the words.
func (e *every) wantMessage(code int, words string, g got) {
	e.Helper()
	if g.code != code || !strings.Contains(g.message(), words) {
		e.Errorf("%s: %d %s, want %d %s", g.what, g.code, g.message(), code, words)
	}
}

// collection returns the kind's path, in its namespace if it has one.
func (e *every) collection() string {
	root := "/apis/" + e.kind.Group
	if e.kind.Group == "" {
		root = "/api"
	}
	root = path.Join(root, e.kind.Version)
	if e.namespace != "" {
		root = path.Join(root, "namespaces", e.namespace)
	}
	return path.Join(root, e.kind.Resource)
}

func (e *every) at(name string, query ...string) string {
	where := path.Join(e.collection(), name)
	if len(query) > 0 {
		where += "?" + strings.Join(query, "&")
	}
	return where
}

// nth returns the JSON of the nth sample, in the kind's namespace.
func (e *every) nth(n int, change func(scheme.Object)) (name, body string) {
	e.Helper()
	obj := e.set.Nth(e.kind, n, e.namespace)
	if change != nil {
		change(obj)
	}
	return obj.GetName(), e.encode(obj)
}

func (e *every) encode(obj runtime.Object) string {
	e.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		e.Fatal(err)
	}
	return string(data)
}

// create creates the nth sample and returns it as the apiserver responds.
func (e *every) create(n int, labels map[string]string) *unstructured.Unstructured {
	e.Helper()
	_, body := e.nth(n, func(obj scheme.Object) { obj.SetLabels(labels) })
	return e.settled(e.read(e.want(http.StatusCreated, e.do(http.MethodPost, e.collection(), asJSON, asJSON, body))))
}

// settled returns an object when the apiserver has written what it adds to a new one: the status of a
// CustomResourceDefinition, and of an APIService, whose Service does not exist.
func (e *every) settled(obj *unstructured.Unstructured) *unstructured.Unstructured {
	e.Helper()
	wanted, written := map[string]string{"CustomResourceDefinition": "Established", "APIService": "Available"}[e.kind.Kind]
	if !written {
		return obj
	}
	harness.Eventually(e.T, "the condition "+wanted+" is written", func() bool {
		obj = e.get(obj.GetName())
		conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
		return slices.ContainsFunc(conditions, func(one any) bool {
			condition, ok := one.(map[string]any)
			return ok && condition["type"] == wanted && (condition["status"] == "True" || condition["reason"] == "ServiceNotFound")
		})
	})
	return obj
}

// read parses the object of a JSON response.
func (e *every) read(g got) *unstructured.Unstructured {
	e.Helper()
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(g.body); err != nil {
		e.Fatalf("%s: %v: %s", g.what, err, g.body)
	}
	return obj
}

// get reads an object.
func (e *every) get(name string) *unstructured.Unstructured {
	e.Helper()
	return e.read(e.want(http.StatusOK, e.do(http.MethodGet, e.at(name), asJSON, asJSON, "")))
}

// isStill reports an error if the object was written.
func (e *every) isStill(was *unstructured.Unstructured, after string) {
	e.Helper()
	if is := e.get(was.GetName()); is.GetResourceVersion() != was.GetResourceVersion() {
		e.Errorf("%s wrote the object: version %s is now %s", after, was.GetResourceVersion(), is.GetResourceVersion())
	}
}

// typed decodes JSON or protobuf into the kind's Go type, and returns it as JSON.
func (e *every) typed(data []byte) string {
	e.Helper()
	obj, gvk, err := e.table.Codecs().UniversalDeserializer().Decode(data, nil, e.kind.New())
	if err != nil {
		e.Fatal(err)
	}
	obj.GetObjectKind().SetGroupVersionKind(*gvk)
	return e.encode(obj)
}

// gone removes what keeps a deleted object, and fails the test if the object stays.
func (e *every) gone(name string) {
	e.Helper()
	g := e.do(http.MethodGet, e.at(name), asJSON, asJSON, "")
	if e.kind.Kind == "CustomResourceDefinition" {
		harness.Eventually(e.T, "the apiserver to remove its finalizer", func() bool {
			g = e.do(http.MethodGet, e.at(name), asJSON, asJSON, "")
			return g.code == http.StatusNotFound || !slices.Contains(e.read(g).GetFinalizers(), apiextensionsv1.CustomResourceCleanupFinalizer)
		})
	}
	if g.code == http.StatusOK {
		obj := e.read(g)
		if obj.GetDeletionTimestamp() == nil {
			e.Fatalf("%s was deleted and still exists: %s", name, g.body)
		}
		// Whichever of the two requests removes the last finalizer, the object goes with it.
		if len(obj.GetFinalizers()) > 0 {
			e.want(http.StatusOK, e.do(http.MethodPatch, e.at(name), mergePatch, asJSON, `{"metadata":{"finalizers":null}}`))
		}
		if e.kind.Kind == "Namespace" {
			obj.Object["metadata"] = map[string]any{"name": name}
			obj.Object["spec"] = map[string]any{"finalizers": []any{}}
			e.want(http.StatusOK, e.do(http.MethodPut, e.at(name)+"/finalize", asJSON, asJSON, e.encode(obj)))
		}
		g = e.do(http.MethodGet, e.at(name), asJSON, asJSON, "")
	}
	e.want(http.StatusNotFound, g)
}

func query(name, value string) string { return name + "=" + url.QueryEscape(value) }

// put returns the body of a PUT that changes an annotation of an object.
func (e *every) put(obj *unstructured.Unstructured, annotation, value string) string {
	e.Helper()
	changed := obj.DeepCopy()
	annotations := changed.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotation] = value
	changed.SetAnnotations(annotations)
	return e.encode(changed)
}

// protobuf encodes an object in Kubernetes' protobuf.
func (e *every) protobuf(obj runtime.Object) string {
	e.Helper()
	info, ok := runtime.SerializerInfoForMediaType(e.table.Codecs().SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		e.Fatal("the kind has no protobuf encoding")
	}
	var buf bytes.Buffer
	if err := info.Serializer.Encode(obj, &buf); err != nil {
		e.Fatal(err)
	}
	return buf.String()
}
