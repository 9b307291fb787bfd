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
)

const (
	protobufMedia = "application/vnd.kubernetes.protobuf"
	maps          = defaultNS + "configmaps"
)

func TestVerbs(t *testing.T) {
	w := newWorld(t)
	w.script([]step{
		{send: "POST " + maps, body: `{"metadata":{"name":"one","labels":{"a":"b"}}}`, want: "201 ConfigMap one a=b"},
		{send: "POST " + maps, body: `{"metadata":{"name":"one"}}`, want: `409 configmaps "one" already exists`},
		{send: "POST " + maps, body: `{"metadata":{"generateName":"made-"}}`, want: "201 ConfigMap made-..."},
		{send: "POST " + maps, body: `{}`, want: "422 ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required"},
		{send: "POST " + maps, body: `{"metadata":{"name":"two","namespace":"other"}}`,
			want: "400 the namespace of the provided object does not match the namespace sent on the request"},
		{send: "GET " + maps + "/one", want: "200 ConfigMap one a=b"},
		{send: "GET " + maps + "/none", want: `404 configmaps "none" not found`},
		{send: "GET " + maps + "/one?resourceVersion=x", want: "400 ..."},
		{send: "GET " + maps + "/one?export=true", want: "400 the export parameter, deprecated since v1.14, is no longer supported"},
		{send: "GET " + maps + "/one?export=maybe", want: "400 the export parameter, deprecated since v1.14, is no longer supported"},
		{send: "GET " + maps + "/one?export=0", want: "200 ConfigMap one a=b"},
		{send: "GET " + maps + "?labelSelector=a%3Db", want: "200 ConfigMapList one"},
		{send: "GET " + maps + "?fieldSelector=metadata.name%3Dtwo", want: "200 ConfigMapList"},
		{send: "GET " + maps + "?labelSelector=%21%21", want: "400 unable to parse requirement: ..."},
		{send: "GET " + maps + "?limit=many", want: "400 strconv.ParseInt: parsing \"many\": invalid syntax"},
		{send: "PUT " + maps + "/one", body: `{"metadata":{"name":"one","labels":{"a":"c"}}}`, want: "200 ConfigMap one a=c"},
		{send: "PUT " + maps + "/one", body: `{"metadata":{"name":"two"}}`,
			want: "400 the name of the object (two) does not match the name on the URL (one)"},
		{send: "PUT " + maps + "/one", body: `{}`,
			want: "400 the name of the object (one based on URL) was undeterminable: name must be provided"},
		{send: "PUT " + maps + "/one", body: `{"metadata":{"name":"one","resourceVersion":"1"}}`,
			want: "409 Operation cannot be fulfilled on configmaps \"one\": the object has been modified; " +
				"please apply your changes to the latest version and try again"},
		{send: "PUT " + maps + "/none", body: `{"metadata":{"name":"none"}}`, want: `404 configmaps "none" not found`},
		{send: "PUT /apis/coordination.k8s.io/v1/namespaces/default/leases/made", body: `{"metadata":{"name":"made"}}`, want: "201 Lease made"},
		{send: "DELETE " + maps + "/none", want: `404 configmaps "none" not found`},
		{send: "DELETE " + maps + "/one?dryRun=All", want: "200 ..."},
		{send: "DELETE " + maps + "/one", want: "200 Status configmaps one"},
		{send: "DELETE " + maps + "?labelSelector=a%3Dnothing", want: "200 ConfigMapList"},
		{send: "DELETE " + maps + "?fieldSelector=metadata.name%3Dmade", want: "200 ConfigMapList"},
		{send: "DELETE " + maps + "?limit=x", want: "400 ..."},
		{send: "GET /api/v1/rockets", want: "404 404 page not found"},
		{send: "POST " + maps + "/one", body: "{}", want: "405 the server does not allow this method on the requested resource"},
		{send: "PUT " + maps, body: "{}", want: "405 the server does not allow this method on the requested resource"},
		{send: "DELETE /api/v1/namespaces", want: "405 the server does not allow this method on the requested resource"},
		{send: "BREW " + maps, want: "405 the server does not allow this method on the requested resource"},
	})
	for path, want := range map[string]string{
		maps: "GET, POST, DELETE", maps + "/one": "GET, PUT, PATCH, DELETE", "/api/v1/namespaces/a/finalize": "PUT",
		defaultNS + "pods/p/binding": "POST", "/api/v1/componentstatuses": "GET", "/apis/authentication.k8s.io/v1/tokenreviews": "POST",
	} {
		if got := w.send("BREW "+path, "", "").Header.Get("Allow"); got != want {
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
	pod := defaultNS + "pods?dryRun=All"
	w.script([]step{
		{send: "POST " + maps, header: yaml, body: "metadata: {name: yaml}", want: "201 ConfigMap yaml"},
		{send: "POST " + maps, header: json + ";charset=utf-8", body: `{"metadata":{"name":"j"}}`, want: "201 ConfigMap j"},
		{send: "POST " + maps, header: "Content-Type: " + protobufMedia, body: string(encode(t, w, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "p"}})),
			want: "201 ConfigMap p"},
		{send: "POST " + maps, header: "Content-Type: text/csv", body: "a,b", want: "415 the body of the request was in an unknown format - " +
			"accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{send: "POST " + maps, header: "Content-Type: ;", body: "{}", want: "415 ..."},
		{send: "POST " + maps, want: "400 the object provided is unrecognized (must be of type ConfigMap): " +
			"couldn't get version/kind; json parse error: unexpected end of JSON input (<empty>)"},
		{send: "POST " + maps, body: `{"kind":`, want: `400 the object provided is unrecognized (must be of type ConfigMap): ` +
			`couldn't get version/kind; json parse error: unexpected end of JSON input ({"kind":)`},
		{send: "POST " + maps, body: strings.Repeat("[", 40), want: "400 the object provided is unrecognized (must be of type ConfigMap): " +
			"couldn't get version/kind; json parse error: unexpected end of JSON input (" + strings.Repeat("5b", 30) + " ...)"},
		{send: "POST " + maps, body: `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"x"}}`,
			want: `400 Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown conversion`},
		{send: "POST " + maps, body: `{"kind":"Rocket","apiVersion":"v1","metadata":{"name":"x"}}`,
			want: `400 Rocket in version "v1" cannot be handled as a ConfigMap: no kind "Rocket" is registered for version "v1"...`},
		{send: "POST /apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers",
			body: `{"kind":"HorizontalPodAutoscaler","apiVersion":"autoscaling/v2","metadata":{"name":"x"}}`,
			want: "400 the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)"},
		{send: "POST " + maps, body: `{"metadata":{"name":1}}`, want: `400 ConfigMap in version "v1" cannot be handled as a ConfigMap: ` +
			`json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string`},
		{send: "POST " + maps, header: "Content-Type: " + protobufMedia, body: "k8s\x00\xff", want: "400 ..."},
		{send: "POST " + maps, body: many(3 << 20), want: "413 Request entity too large: limit is 3145728"},
		{send: "PUT " + maps + "/yaml", body: many(3 << 20), want: "413 Request entity too large: limit is 3145728"},
		{send: "PATCH " + maps + "/yaml", header: "Content-Type: application/merge-patch+json", body: many(3 << 20),
			want: "413 Request entity too large: limit is 3145728"},
		{send: "DELETE " + maps + "/yaml", body: many(3 << 20), want: "413 Request entity too large: limit is 3145728"},
		// Unknown and repeated fields.
		{send: "POST " + maps + "?dryRun=All", body: `{"metadata":{"name":"w"},"rocket":1,"data":{"k":"1","k":"2"}}`, want: "201 ConfigMap w",
			warns: []string{`unknown field "rocket"`, `duplicate field "data.k"`}},
		{send: "POST " + maps + "?dryRun=All&fieldValidation=Strict", body: `{"metadata":{"name":"w"},"rocket":1}`,
			want: `400 ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "rocket"`},
		{send: "POST " + maps + "?dryRun=All&fieldValidation=Ignore", body: `{"metadata":{"name":"w"},"rocket":1}`, want: "201 ConfigMap w"},
		{send: "POST " + maps + "?dryRun=All", header: yaml, body: "metadata: {name: w}\ndata: {k: a, k: b, l: c, l: d}\n", want: "201 ConfigMap w",
			warns: []string{`line 2: key "k" already set in map`, `line 2: key "l" already set in map`}},
		{send: "POST " + maps + "?fieldValidation=Loose", body: `{"metadata":{"name":"w"}}`,
			want: `422 CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"`},
		{send: "POST " + pod, body: `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A"},{"name":"A"}]}]}}`,
			want:  "201 Pod p",
			warns: []string{`spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply`}},
		{send: "POST " + maps + "?dryRun=All", body: `{"metadata":{"name":"w","ownerReferences":[` +
			`{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"},{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`, want: "201 ConfigMap w",
			warns: []string{".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject such requests " +
				"as early as 1.24; please fix your requests; duplicate UID(s) observed: u"}},
	})
	// A body that ends before the request does.
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+maps, io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
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
	obj.GetObjectKind().SetGroupVersionKind(w.table.KindOf(obj).GroupVersionKind)
	for _, info := range w.table.Codecs().SupportedMediaTypes() {
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
	w.script([]step{
		{send: "POST " + maps, body: `{"metadata":{"name":"one","finalizers":["x/y"]}}`, want: "201 ConfigMap one"},
		{send: one, header: as("merge-patch+json"), body: `{"metadata":{"labels":{"a":"1"}}}`, want: "200 ConfigMap one a=1"},
		{send: one, header: as("strategic-merge-patch+json"), body: `{"metadata":{"labels":{"a":"2"}}}`, want: "200 ConfigMap one a=2"},
		{send: one, header: as("json-patch+json"), body: `[{"op":"replace","path":"/metadata/labels/a","value":"3"}]`, want: "200 ConfigMap one a=3"},
		{send: one, header: as("json-patch+json"), body: `[{"op":"test","path":"/metadata/labels/a","value":"9"}]`, want: "422 ..."},
		{send: one, header: as("json-patch+json"), body: `{"op":"test"}`, want: "400 ..."},
		{send: one, header: as("merge-patch+json"), body: `{`, want: "400 ..."},
		{send: one, header: as("json"), body: `{}`, want: "415 the body of the request was in an unknown format - accepted media types include: " +
			"application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml..."},
		{send: one, header: as("merge-patch+json"), body: `{"metadata":{"name":"two"}}`,
			want: "400 the name of the object (two) does not match the name on the URL (one)"},
		{send: one, header: as("merge-patch+json"), body: `{"metadata":{"uid":"u"}}`,
			want: `422 ConfigMap "one" is invalid: metadata.uid: Invalid value: "u": field is immutable`},
		{send: one, header: as("merge-patch+json"), body: `{"metadata":{"resourceVersion":"1"}}`, want: "409 ..."},
		{send: "PATCH " + maps + "/none", header: as("merge-patch+json"), body: `{}`, want: `404 configmaps "none" not found`},
		{send: lease, header: as("merge-patch+json"), body: `{}`, want: `404 leases.coordination.k8s.io "new" not found`},
		{send: one + "?force=true", header: as("merge-patch+json"), body: `{}`,
			want: `422 PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch`},
		{send: one, header: apply, body: "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}}",
			want: `422 PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`},
		{send: one + "?fieldManager=m", header: apply, body: `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {a: "4"}}}`,
			want: `409 Apply failed with 1 conflict: conflict with "tester" using v1: .metadata.labels.a`},
		{send: one + "?fieldManager=m&force=true", header: apply, body: `{apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {a: "4"}}}`,
			want: "200 ConfigMap one a=4"},
		{send: lease + "?fieldManager=m", header: apply, body: "{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: new}}", want: "201 Lease new"},
		{send: one + "?fieldManager=m&fieldValidation=Strict", header: apply,
			body: "{apiVersion: v1, kind: ConfigMap, metadata: {name: one}, rocket: 1}",
			want: "500 failed to create typed patch object (/one; /v1, Kind=ConfigMap): .rocket: field not declared in schema"},
		// Unknown fields of the other types.
		{send: one, header: as("merge-patch+json"), body: `{"rocket":1}`, want: "200 ConfigMap one a=4", warns: []string{`unknown field "rocket"`}},
		{send: one + "?fieldValidation=Strict", header: as("merge-patch+json"), body: `{"rocket":1}`, want: "422 ..."},
		{send: one + "?fieldValidation=Ignore", header: as("merge-patch+json"), body: `{"rocket":1}`, want: "200 ConfigMap one a=4"},
		// A dry run changes nothing.
		{send: one + "?dryRun=All", header: as("merge-patch+json"), body: `{"metadata":{"labels":{"a":"9"}}}`, want: "200 ConfigMap one a=9"},
		{send: one + "?dryRun=Some", header: as("merge-patch+json"), body: `{}`,
			want: `422 PatchOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`},
		{send: "GET " + maps + "/one", want: "200 ConfigMap one a=4"},
		// A deletion that waits for a finalizer returns the object.
		{send: "DELETE " + maps + "/one", body: `{"kind":"DeleteOptions","apiVersion":"v1","orphanDependents":false}`, want: "202 ConfigMap one a=4"},
		{send: "DELETE " + maps + "/one", body: `{"propagationPolicy":"Background"}`, want: "200 ConfigMap one a=4"},
		{send: "DELETE " + maps + "/one", body: `{"kind":"DeleteOptions","apiVersion":"apps/v1"}`, want: "200 ConfigMap one a=4"},
		{send: "DELETE " + maps + "/one", body: `{"kind":"Pod","apiVersion":"v1"}`, want: "400 ..."},
		{send: "DELETE " + maps + "/one", body: `{"propagationPolicy":"Twice"}`, want: "422 DeleteOptions.meta.k8s.io \"\" is invalid: ..."},
		{send: "DELETE " + maps + "/one", body: `{"preconditions":{"uid":"u"}}`, want: "409 ..."},
		{send: "DELETE " + maps + "/one", header: "Content-Type: text/csv", body: `a,b`, want: "415 ..."},
	})
}

// TestForms asks for objects and lists in each form.
func TestForms(t *testing.T) {
	w := newWorld(t)
	as := func(kind, version string) string {
		return "Accept: application/json;as=" + kind + ";g=meta.k8s.io;v=" + version
	}
	w.script([]step{
		{send: "POST " + maps, header: as("Table", "v1"), body: `{"metadata":{"name":"one"}}`, want: "201 Table one"},
		{send: "GET " + maps + "/one", header: as("Table", "v1"), want: "200 Table one"},
		{send: "GET " + maps + "/one", header: as("Table", "v1beta1"), want: "200 Table one of v1beta1"},
		{send: "GET " + maps + "/one", header: as("PartialObjectMetadata", "v1"), want: "200 PartialObjectMetadata one"},
		{send: "GET " + maps + "/one", header: as("PartialObjectMetadata", "v1beta1"), want: "200 PartialObjectMetadata one of v1beta1"},
		{send: "GET " + maps + "/one", header: as("PartialObjectMetadataList", "v1"), want: "406 only the following media types are accepted: ..."},
		{send: "GET " + maps, header: as("Table", "v1"), want: "200 Table one"},
		{send: "GET " + maps, header: as("PartialObjectMetadataList", "v1beta1"), want: "200 PartialObjectMetadataList one of v1beta1"},
		{send: "GET " + maps, header: as("PartialObjectMetadata", "v1"), want: "406 only the following media types are accepted: ..."},
		{send: "GET " + maps + "/one?includeObject=Everything", header: as("Table", "v1"), want: "400 Unable to convert to Table as requested: " +
			`includeObject: Invalid value: "Everything": must be 'Metadata', 'Object', 'None', or empty`},
		{send: "GET " + maps + "?includeObject=None", header: as("Table", "v1"), want: "200 Table one"},
		{send: "GET " + maps + "/one", header: "Accept: text/html", want: "406 only the following media types are accepted: ..."},
		{send: "GET " + maps + "/one", header: as("Table", "v1") + ",application/json", want: "200 Table one"},
		{send: "GET " + maps + "/one", header: as("Rocket", "v1") + ",application/json", want: "200 ConfigMap one"},
		{send: "GET " + maps + "/none", header: as("Table", "v1"), want: `404 configmaps "none" not found`},
		{send: "DELETE " + maps + "?dryRun=All", header: as("Table", "v1"), want: "200 Table one"},
		{send: "DELETE " + maps + "/one", header: as("PartialObjectMetadata", "v1"), want: "200 Status configmaps one"},
	})
	for accept, want := range map[string]string{
		"application/yaml": "application/yaml", protobufMedia: protobufMedia, "*/*": "application/json", "application/*": "application/json", "": "application/json",
		"text/html,application/yaml;q=0.5": "application/yaml",
	} {
		for _, path := range []string{maps, defaultNS + "serviceaccounts/default", maps + "/none"} {
			if got := w.send("GET "+path, "Accept: "+accept, "").Header.Get("Content-Type"); got != want {
				t.Errorf("GET %s with Accept %q is answered with %q, want %q", path, accept, got, want)
			}
		}
	}
}
