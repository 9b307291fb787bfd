package rest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/rest/resttest"
)

const (
	protobufMedia = "application/vnd.kubernetes.protobuf"
	maps          = resttest.Default + "configmaps"
)

func TestVerbs(t *testing.T) {
	w := newWorld(t)
	w.Script([]resttest.Step{
		{Send: "POST " + maps, Body: `{"metadata":{"name":"one","labels":{"a":"b"}}}`, Want: "201 ConfigMap one a=b"},
		{Send: "POST " + maps, Body: `{"metadata":{"name":"one"}}`, Want: `409 configmaps "one" already exists`},
		{Send: "POST " + maps, Body: `{"metadata":{"generateName":"made-"}}`, Want: "201 ConfigMap made-..."},
		{Send: "POST " + maps, Body: `{}`, Want: "422 ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"},
		{Send: "POST " + maps, Body: `{"metadata":{"name":"two","namespace":"other"}}`,
			Want: "400 the namespace of the provided object does not match the namespace sent on the request"},
		{Send: "POST /api/v1/namespaces", Body: `{"metadata":{"name":"three","namespace":"other"}}`, Want: "201 Namespace three..."},
		{Send: "POST /api/v1/configmaps", Body: `{"metadata":{"name":"two"}}`, Want: "405 the server does not allow this method on the requested resource"},
		{Send: "DELETE /api/v1/configmaps", Want: "405 the server does not allow this method on the requested resource"},
		{Send: "GET " + maps + "/one", Want: "200 ConfigMap one a=b"},
		{Send: "GET " + maps + "/none", Want: `404 configmaps "none" not found`},
		{Send: "GET " + maps + "/one?resourceVersion=x", Want: "400 ..."},
		{Send: "GET " + maps + "/one?export=true", Want: "400 the export parameter, deprecated since v1.14, is no longer supported"},
		{Send: "GET " + maps + "/one?export=maybe", Want: "400 the export parameter, deprecated since v1.14, is no longer supported"},
		{Send: "GET " + maps + "/one?export=0", Want: "200 ConfigMap one a=b"},
		{Send: "GET " + maps + "?labelSelector=a%3Db", Want: "200 ConfigMapList one"},
		{Send: "GET " + maps + "?fieldSelector=metadata.name%3Dtwo", Want: "200 ConfigMapList"},
		{Send: "GET " + maps + "?labelSelector=%21%21", Want: "400 unable to parse requirement: ..."},
		{Send: "GET " + maps + "?limit=many", Want: "400 strconv.ParseInt: parsing \"many\": invalid syntax"},
		{Send: "PUT " + maps + "/one", Body: `{"metadata":{"name":"one","labels":{"a":"c"}}}`, Want: "200 ConfigMap one a=c"},
		{Send: "PUT " + maps + "/one", Body: `{"metadata":{"name":"two"}}`,
			Want: "400 the name of the object (two) does not match the name on the URL (one)"},
		{Send: "PUT " + maps + "/one", Body: `{}`,
			Want: "400 the name of the object (one based on URL) was undeterminable: name must be provided"},
		{Send: "PUT " + maps + "/one", Body: `{"metadata":{"name":"one","resourceVersion":"1"}}`,
			Want: "409 Operation cannot be fulfilled on configmaps \"one\": the object has been modified; " +
				"please apply your changes to the latest version and try again"},
		{Send: "PUT " + maps + "/none", Body: `{"metadata":{"name":"none"}}`, Want: `404 configmaps "none" not found`},
		{Send: "PUT /apis/coordination.k8s.io/v1/namespaces/default/leases/made", Body: `{"metadata":{"name":"made"}}`, Want: "201 Lease made"},
		{Send: "DELETE " + maps + "/none", Want: `404 configmaps "none" not found`},
		{Send: "DELETE " + maps + "/one?dryRun=All", Want: "200 ..."},
		{Send: "DELETE " + maps + "/one", Want: "200 Status configmaps one"},
		{Send: "DELETE " + maps + "?labelSelector=a%3Dnothing", Want: "200 ConfigMapList"},
		{Send: "DELETE " + maps + "?fieldSelector=metadata.name%3Dmade", Want: "200 ConfigMapList"},
		{Send: "DELETE " + maps + "?limit=x", Want: "400 ..."},
		{Send: "GET /api/v1/rockets", Want: "404 404 page not found"},
		{Send: "POST " + maps + "/one", Body: "{}", Want: "405 the server does not allow this method on the requested resource"},
		{Send: "PUT " + maps, Body: "{}", Want: "405 the server does not allow this method on the requested resource"},
		{Send: "DELETE /api/v1/namespaces", Want: "405 the server does not allow this method on the requested resource"},
		{Send: "BREW " + maps, Want: "405 the server does not allow this method on the requested resource"},
	})
	for path, want := range map[string]string{
		maps: "GET, POST, DELETE", maps + "/one": "GET, PUT, PATCH, DELETE", "/api/v1/namespaces/a/finalize": "PUT",
		resttest.Default + "pods/p/binding": "POST", "/api/v1/componentstatuses": "GET", "/apis/authentication.k8s.io/v1/tokenreviews": "POST",
	} {
		if got := w.Send("BREW "+path, "", "").Header.Get("Allow"); got != want {
			t.Errorf("%s allows %q, want %q", path, got, want)
		}
	}
}

// TestBodies sends bodies in all formats, and unreadable ones.
func TestBodies(t *testing.T) {
	w := newWorld(t)
	many := func(n int) string {
		return fmt.Sprintf(`{"metadata":{"name":"big"},"data":{"a":"%s"}}`, strings.Repeat("x", n))
	}
	const yaml, json = "Content-Type: application/yaml", "Content-Type: application/json"
	pod := resttest.Default + "pods?dryRun=All"
	w.Script([]resttest.Step{
		{Send: "POST " + maps, Header: yaml, Body: "metadata: {name: yaml}", Want: "201 ConfigMap yaml"},
		{Send: "POST " + maps, Header: json + ";charset=utf-8", Body: `{"metadata":{"name":"j"}}`, Want: "201 ConfigMap j"},
		{Send: "POST " + maps, Header: "Content-Type: " + protobufMedia, Body: string(encode(t, w, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"}})),
			Want: "201 ConfigMap p"},
		{Send: "POST " + maps, Header: "Content-Type: text/csv", Body: "a,b", Want: "415 the body of the request was in an unknown format - " +
			"accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{Send: "POST " + maps, Header: "Content-Type: ;", Body: "{}", Want: "415 ..."},
		{Send: "POST " + maps, Want: "400 the object provided is unrecognized (must be of type ConfigMap): " +
			"couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"},
		{Send: "POST " + maps, Body: `{"kind":`, Want: `400 the object provided is unrecognized (must be of type ConfigMap): ` +
			`couldn't get version/kind; json parse error: unexpected end of JSON input ({"kind":)`},
		{Send: "POST " + maps, Body: strings.Repeat("[", 40), Want: "400 the object provided is unrecognized (must be of type ConfigMap): " +
			"couldn't get version/kind; json parse error: unexpected end of JSON input (" + strings.Repeat("5b", 30) + " ...)"},
		{Send: "POST " + maps, Body: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}`,
			Want: `400 Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion`},
		{Send: "POST " + maps, Body: `{"kind":"Rocket","apiVersion":"v1","metadata":{"name":"x"}}`,
			Want: `400 Rocket in version "v1" cannot be handled as a ConfigMap: no kind "Rocket" is registered for version "v1"...`},
		{Send: "POST /apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
			Body: `{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","metadata":{"name":"x"}}`,
			Want: "400 the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)"},
		{Send: "POST " + maps, Body: `{"metadata":{"name":1}}`, Want: `400 ConfigMap in version "v1" cannot be handled as a ConfigMap: ` +
			`json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string`},
		{Send: "POST " + maps, Header: "Content-Type: " + protobufMedia, Body: "k8s\x00\xff", Want: "400 ..."},
		{Send: "POST " + maps, Body: many(3 << 20), Want: "413 Request entity too large: limit is 3145728"},
		{Send: "PUT " + maps + "/yaml", Body: many(3 << 20), Want: "413 Request entity too large: limit is 3145728"},
		{Send: "PATCH " + maps + "/yaml", Header: "Content-Type: application/merge-patch+json", Body: many(3 << 20),
			Want: "413 Request entity too large: limit is 3145728"},
		{Send: "DELETE " + maps + "/yaml", Body: many(3 << 20), Want: "413 Request entity too large: limit is 3145728"},
		// Unknown and repeated fields.
		{Send: "POST " + maps + "?dryRun=All", Body: `{"metadata":{"name":"w"},"rocket":1,"data":{"k":"1","k":"2"}}`, Want: "201 ConfigMap w",
			Warns: []string{`unknown field "rocket"`, `duplicate field "data.k"`}},
		{Send: "POST " + maps + "?dryRun=All&fieldValidation=Strict", Body: `{"metadata":{"name":"w"},"rocket":1}`,
			Want: `400 ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "rocket"`},
		{Send: "POST " + maps + "?dryRun=All&fieldValidation=Ignore", Body: `{"metadata":{"name":"w"},"rocket":1}`, Want: "201 ConfigMap w"},
		{Send: "POST " + maps + "?dryRun=All", Header: yaml, Body: "metadata: {name: w}\ndata: {k: a, k: b, l: c, l: d}\n", Want: "201 ConfigMap w",
			Warns: []string{`line 2: key "k" already set in map`, `line 2: key "l" already set in map`}},
		{Send: "POST " + maps + "?fieldValidation=Loose", Body: `{"metadata":{"name":"w"}}`,
			Want: `422 CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"`},
		{Send: "POST " + pod, Body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A"},{"name":"A"}]}]}}`,
			Want:  "201 Pod p",
			Warns: []string{`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`}},
		{Send: "POST " + maps + "?dryRun=All", Body: `{"metadata":{"name":"w","ownerReferences":[` +
			`{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"},{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`, Want: "201 ConfigMap w",
			Warns: []string{".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests " +
				"as early as 1.24; please fix your requests; duplicate UID(s) observed: u"}},
	})
	// A body that ends before the request does.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+maps, io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	if err != nil {
		t.Fatal(err)
	}
	if answer, err := http.DefaultTransport.RoundTrip(r); err == nil {
		t.Errorf("a body that ends early is answered with %s", answer.Status)
	}
}

// encode encodes an object as protobuf.
func encode(t *testing.T, w *world, obj scheme.Object) []byte {
	t.Helper()
	obj.GetObjectKind().SetGroupVersionKind(w.Table.KindOf(obj).GroupVersionKind)
	for _, info := range w.Table.Codecs().SupportedMediaTypes() {
		if info.MediaType == protobufMedia {
			var data bytes.Buffer
			if err := info.Serializer.Encode(obj, &data); err != nil {
				t.Fatal(err)
			}
			return data.Bytes()
		}
	}
	t.Fatal("protobuf is not supported")
	return nil
}

// TestPatches sends patches of each type to one object.
func TestPatches(t *testing.T) {
	w := newWorld(t)
	as := func(kind string) string { return "Content-Type: application/" + kind }
	const one, lease = "PATCH " + maps + "/one", "PATCH /apis/coordination.k8s.io/v1/namespaces/default/leases/new"
	apply := as("apply-patch+yaml")
	w.Script([]resttest.Step{
		{Send: "POST " + maps, Body: `{"metadata":{"name":"one","finalizers":["x/y"]}}`, Want: "201 ConfigMap one"},
		{Send: one, Header: as("merge-patch+json"), Body: `{"metadata":{"labels":{"a":"1"}}}`, Want: "200 ConfigMap one a=1"},
		{Send: one, Header: as("strategic-merge-patch+json"), Body: `{"metadata":{"labels":{"a":"2"}}}`, Want: "200 ConfigMap one a=2"},
		{Send: one, Header: as("json-patch+json"), Body: `[{"op":"replace","path":"/metadata/labels/a","value":"3"}]`, Want: "200 ConfigMap one a=3"},
		{Send: one, Header: as("json-patch+json"), Body: `[{"op":"test","path":"/metadata/labels/a","value":"9"}]`, Want: "422 ..."},
		{Send: one, Header: as("json-patch+json"), Body: `{"op":"test"}`, Want: "400 ..."},
		{Send: one, Header: as("merge-patch+json"), Body: `{`, Want: "400 ..."},
		{Send: one, Header: as("json"), Body: `{}`, Want: "415 the body of the request was in an unknown format - accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml..."},
		{Send: one, Header: as("merge-patch+json"), Body: `{"metadata":{"name":"two"}}`,
			Want: "400 the name of the object (two) does not match the name on the URL (one)"},
		{Send: one, Header: as("merge-patch+json"), Body: `{"metadata":{"uid":"u"}}`,
			Want: `422 ConfigMap "one" is invalid: metadata.uid: Invalid value: "u": field is immutable`},
		{Send: one, Header: as("merge-patch+json"), Body: `{"metadata":{"resourceVersion":"1"}}`, Want: "409 ..."},
		{Send: "PATCH " + maps + "/none", Header: as("merge-patch+json"), Body: `{}`, Want: `404 configmaps "none" not found`},
		{Send: lease, Header: as("merge-patch+json"), Body: `{}`, Want: `404 leases.coordination.k8s.io "new" not found`},
		{Send: one + "?force=true", Header: as("merge-patch+json"), Body: `{}`,
			Want: `422 PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`},
		{Send: one, Header: apply, Body: "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}",
			Want: `422 PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`},
		{Send: one + "?fieldManager=m", Header: apply, Body: `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {a: "4"}}}`,
			Want: `409 Apply failed with 1 conflict: conflict with "tester" using v1: .metadata.labels.a`},
		{Send: one + "?fieldManager=m&force=true", Header: apply, Body: `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {a: "4"}}}`,
			Want: "200 ConfigMap one a=4"},
		{Send: lease + "?fieldManager=m", Header: apply, Body: "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: new}}", Want: "201 Lease new"},
		{Send: one + "?fieldManager=m&fieldValidation=Strict", Header: apply,
			Body: "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, rocket: 1}",
			Want: "500 failed to create typed patch object (/one; /v1, Kind=ConfigMap): .rocket: field not declared in schema"},
		// Unknown fields of the other types.
		{Send: one, Header: as("merge-patch+json"), Body: `{"rocket":1}`, Want: "200 ConfigMap one a=4", Warns: []string{`unknown field "rocket"`}},
		{Send: one + "?fieldValidation=Strict", Header: as("merge-patch+json"), Body: `{"rocket":1}`, Want: "422 ..."},
		{Send: one + "?fieldValidation=Ignore", Header: as("merge-patch+json"), Body: `{"rocket":1}`, Want: "200 ConfigMap one a=4"},
		// A dry run changes nothing.
		{Send: one + "?dryRun=All", Header: as("merge-patch+json"), Body: `{"metadata":{"labels":{"a":"9"}}}`, Want: "200 ConfigMap one a=9"},
		{Send: one + "?dryRun=Some", Header: as("merge-patch+json"), Body: `{}`,
			Want: `422 PatchOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`},
		{Send: "GET " + maps + "/one", Want: "200 ConfigMap one a=4"},
		// A deletion that waits for a finalizer returns the object.
		{Send: "DELETE " + maps + "/one", Body: `{"kind":"DeleteOptions","apiVersion":"v1","orphanDependents":false}`, Want: "202 ConfigMap one a=4"},
		{Send: "DELETE " + maps + "/one", Body: `{"propagationPolicy":"Background"}`, Want: "200 ConfigMap one a=4"},
		{Send: "DELETE " + maps + "/one", Body: `{"kind":"DeleteOptions","apiVersion":"apps/v1"}`, Want: "200 ConfigMap one a=4"},
		{Send: "DELETE " + maps + "/one", Body: `{"kind":"Pod","apiVersion":"v1"}`, Want: "400 ..."},
		{Send: "DELETE " + maps + "/one", Body: `{"propagationPolicy":"Twice"}`, Want: "422 DeleteOptions.meta.k8s.io \"\" is invalid: ..."},
		{Send: "DELETE " + maps + "/one", Body: `{"preconditions":{"uid":"u"}}`, Want: "409 ..."},
		{Send: "DELETE " + maps + "/one", Header: "Content-Type: text/csv", Body: `a,b`, Want: "415 ..."},
	})
}

// TestForms asks for objects and lists in each form.
func TestForms(t *testing.T) {
	w := newWorld(t)
	as := func(kind, version string) string {
		return "Accept: application/json;as=" + kind + ";g=meta.k8s.io;v=" + version
	}
	w.Script([]resttest.Step{
		{Send: "POST " + maps, Header: as("Table", "v1"), Body: `{"metadata":{"name":"one"}}`, Want: "201 Table one"},
		{Send: "GET " + maps + "/one", Header: as("Table", "v1"), Want: "200 Table one"},
		{Send: "GET " + maps + "/one", Header: as("Table", "v1beta1"), Want: "200 Table one of v1beta1"},
		{Send: "GET " + maps + "/one", Header: as("PartialObjectMetadata", "v1"), Want: "200 PartialObjectMetadata one"},
		{Send: "GET " + maps + "/one", Header: as("PartialObjectMetadata", "v1beta1"), Want: "200 PartialObjectMetadata one of v1beta1"},
		{Send: "GET " + maps + "/one", Header: as("PartialObjectMetadataList", "v1"), Want: "406 only the following media types are accepted: ..."},
		{Send: "GET " + maps, Header: as("Table", "v1"), Want: "200 Table one"},
		{Send: "GET " + maps, Header: as("PartialObjectMetadataList", "v1beta1"), Want: "200 PartialObjectMetadataList one of v1beta1"},
		{Send: "GET " + maps, Header: as("PartialObjectMetadata", "v1"), Want: "406 only the following media types are accepted: ..."},
		{Send: "GET " + maps + "/one?includeObject=Everything", Header: as("Table", "v1"), Want: "400 Unable to convert to Table as requested: " +
			`includeObject: Invalid value: "Everything": must be 'Metadata', 'Object', 'None', or empty`},
		{Send: "GET " + maps + "?includeObject=None", Header: as("Table", "v1"), Want: "200 Table one"},
		{Send: "GET " + maps + "/one", Header: "Accept: text/html", Want: "406 only the following media types are accepted: ..."},
		{Send: "GET " + maps + "/one", Header: as("Table", "v1") + ",application/json", Want: "200 Table one"},
		{Send: "GET " + maps + "/one", Header: as("Rocket", "v1") + ",application/json", Want: "200 ConfigMap one"},
		{Send: "GET " + maps + "/none", Header: as("Table", "v1"), Want: `404 configmaps "none" not found`},
		{Send: "DELETE " + maps + "?dryRun=All", Header: as("Table", "v1"), Want: "200 Table one"},
		{Send: "DELETE " + maps + "/one", Header: as("PartialObjectMetadata", "v1"), Want: "200 Status configmaps one"},
	})
	for accept, want := range map[string]string{
		"application/yaml": "application/yaml", protobufMedia: protobufMedia, "*/*": "application/json", "application/*": "application/json", "": "application/json",
		"text/html,application/yaml;q=0.5": "application/yaml",
	} {
		for _, path := range []string{maps, resttest.Default + "serviceaccounts/default", maps + "/none"} {
			if got := w.Send("GET "+path, "Accept: "+accept, "").Header.Get("Content-Type"); got != want {
				t.Errorf("GET %s with Accept %q is answered with %q, want %q", path, accept, got, want)
			}
		}
	}
}
