package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// input is a request that a client should not make, and Kubernetes' response to it.
type input struct {
	name, method, path string
	header             map[string]string
	body               string
	code               int
	reason             metav1.StatusReason
	says               string // a part of the message
	warns              string // a part of a warning
}

const (
	asJSON      = "application/json"
	asYAML      = "application/yaml"
	asProtobuf  = "application/vnd.kubernetes.protobuf"
	jsonPatch   = "application/json-patch+json"
	mergePatch  = "application/merge-patch+json"
	strategic   = "application/strategic-merge-patch+json"
	configMaps  = "/api/v1/namespaces/default/configmaps"
	theMap      = configMaps + "/theirs"
	deployments = "/apis/apps/v1/namespaces/default/deployments"
	mib         = 1 << 20
)

func as(contentType string) map[string]string { return map[string]string{"Content-Type": contentType} }

// aMap returns a config map with additional fields.
func aMap(metadata, rest string) string {
	return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"` + metadata + `}` + rest + `}`
}

func nested(n int, opening, closing string) string {
	return strings.Repeat(opening, n) + strings.Repeat(closing, n)
}

// aliases returns a YAML document that grows 9^n times when its aliases are expanded.
func aliases(n int) string {
	doc := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\na0: &a0 [x,x,x,x,x,x,x,x,x]\n"
	for i := range n {
		doc += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d,", i), 8), i)
	}
	return doc
}

func zipped(t *testing.T, body string) string {
	t.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := io.WriteString(w, body); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

func operations(n int, op string) string {
	return "[" + strings.Repeat(op+",", n-1) + op + "]"
}

func inputs(t *testing.T) []input {
	const bad, large, invalid, media = metav1.StatusReasonBadRequest, metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonInvalid, metav1.StatusReasonUnsupportedMediaType
	const rejected = "the server rejected our request due to an error in our request"
	long := strings.Repeat("x", 64)
	doubled := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"},"data":{"a":"1","a":"2"},"unheardOf":1}`
	return []input{
		// Sizes.
		{"a body above 3 MiB", "POST", configMaps, as(asJSON), aMap("", `,"data":{"a":"`+strings.Repeat("x", 3*mib)+`"}`), 413, large, "Request entity too large: limit is 3145728", ""},
		{"a patch above 3 MiB", "PATCH", theMap, as(mergePatch), `{"data":{"a":"` + strings.Repeat("x", 3*mib) + `"}}`, 413, large, "Request entity too large: limit is 3145728", ""},
		{"options above 3 MiB", "DELETE", theMap, as(asJSON), strings.Repeat(" ", 3*mib+1), 413, large, "limit is 3145728", ""},
		{"a value too large for etcd", "POST", configMaps, as(asJSON), aMap("", `,"data":{"a":"`+strings.Repeat("x", 2*mib)+`"}`), 422, invalid, "Too long: may not be more than 1048576 bytes", ""},
		{"a compressed body", "POST", configMaps, map[string]string{"Content-Type": asJSON, "Content-Encoding": "gzip"}, zipped(t, aMap("", "")), 400, bad, "the object provided is unrecognized", ""},
		{"JSON nested deeply", "POST", configMaps, as(asJSON), aMap("", `,"data":`+nested(20000, `{"a":`, "")+"1"+strings.Repeat("}", 20000)), 400, bad, "exceeded max depth", ""},
		{"a merge patch nested deeply", "PATCH", theMap, as(mergePatch), nested(20000, `{"a":`, "") + "1" + strings.Repeat("}", 20000), 400, bad, "invalid JSON patch", ""},
		{"a strategic patch nested deeply", "PATCH", theMap, as(strategic), nested(20000, `{"a":`, "") + "1" + strings.Repeat("}", 20000), 400, bad, "invalid JSON patch", ""},
		{"YAML nested deeply", "POST", configMaps, as(asYAML), "apiVersion: v1\nkind: ConfigMap\ndata: " + nested(20000, "[", "]"), 400, bad, "exceeded max depth", ""},
		{"YAML with aliases of aliases", "POST", configMaps, as(asYAML), aliases(9), 400, bad, "document contains excessive aliasing", ""},
		{"annotations above 256 KiB", "POST", configMaps, as(asJSON), aMap(`,"annotations":{"a":"`+strings.Repeat("x", 256<<10)+`"}`, ""), 422, invalid, "metadata.annotations: Too long: may not be more than 262144 bytes", ""},
		{"annotations above 256 KiB by a patch", "PATCH", theMap, as(mergePatch), `{"metadata":{"annotations":{"a":"` + strings.Repeat("x", 256<<10) + `"}}}`, 422, invalid, "metadata.annotations: Too long: may not be more than 262144 bytes", ""},
		{"a JSON patch with too many operations", "PATCH", theMap, as(jsonPatch), operations(10001, `{"op":"test","path":"/kind","value":"ConfigMap"}`), 413, large, "The allowed maximum operations in a JSON patch is 10000, got 10001", ""},
		{"a JSON patch that copies repeatedly", "PATCH", theMap, as(jsonPatch),
			`[{"op":"add","path":"/data","value":{"a":"` + strings.Repeat("x", 100<<10) + `"}},` + strings.TrimPrefix(operations(40, `{"op":"copy","from":"/data","path":"/data/b"}`), "["), 422, invalid, rejected, ""},

		// Metadata.
		{"a label value that is too long", "POST", configMaps, as(asJSON), aMap(`,"labels":{"a":"`+long+`"}`, ""), 422, invalid, "metadata.labels: Invalid value", ""},
		{"a label name that is too long", "POST", configMaps, as(asJSON), aMap(`,"labels":{"`+long+`":"a"}`, ""), 422, invalid, "name part must be no more than 63 bytes", ""},
		{"an annotation name with a space", "POST", configMaps, as(asJSON), aMap(`,"annotations":{"a b":""}`, ""), 422, invalid, "metadata.annotations: Invalid value: \"a b\"", ""},
		{"a name with a slash", "POST", configMaps, as(asJSON), `{"metadata":{"name":"a/b"}}`, 422, invalid, `metadata.name: Invalid value: "a/b"`, ""},
		{"a name in capitals", "POST", configMaps, as(asJSON), `{"metadata":{"name":"ABC"}}`, 422, invalid, "a lowercase RFC 1123 subdomain must consist of", ""},
		{"no name", "POST", configMaps, as(asJSON), `{"metadata":{}}`, 422, invalid, "name or generateName is required", ""},
		{"another namespace", "POST", configMaps, as(asJSON), aMap(`,"namespace":"other"`, ""), 400, bad, "the namespace of the provided object does not match the namespace sent on the request", ""},
		{"another name", "PUT", theMap, as(asJSON), aMap("", ""), 400, bad, "the name of the object (new) does not match the name on the URL (theirs)", ""},
		{"a resourceVersion on creation", "POST", configMaps, as(asJSON), aMap(`,"resourceVersion":"1"`, ""), 500, metav1.StatusReasonUnknown, "resourceVersion should not be set on objects to be created", ""},
		{"a resourceVersion that is not a number", "PUT", theMap, as(asJSON), `{"metadata":{"name":"theirs","resourceVersion":"x"}}`, 422, invalid, "metadata.resourceVersion: Invalid value", ""},
		{"another UID", "PUT", theMap, as(asJSON), `{"metadata":{"name":"theirs","uid":"x"}}`, 409, metav1.StatusReasonConflict, "Precondition failed: UID in precondition: x, UID in object meta: ", ""},
		{"another UID to delete", "DELETE", theMap, as(asJSON), `{"preconditions":{"uid":"x"}}`, 409, metav1.StatusReasonConflict, "the UID in the precondition (x) does not match the UID in record", ""},
		{"an owner without a UID", "POST", configMaps, as(asJSON), aMap(`,"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p"}]`, ""), 422, invalid, "metadata.ownerReferences[0].uid: Required value: must not be empty", ""},

		// Bodies.
		{"an empty body", "POST", configMaps, as(asJSON), "", 400, bad, "the object provided is unrecognized (must be of type ConfigMap)", ""},
		{"a body that is not JSON", "POST", configMaps, as(asJSON), "{a", 400, bad, "({a)", ""},
		{"JSON that is not an object", "POST", configMaps, as(asJSON), "[]", 400, bad, "the object provided is unrecognized (must be of type ConfigMap)", ""},
		{"a body that is not YAML", "POST", configMaps, as(asYAML), "a: [", 400, bad, "yaml: line 1", ""},
		{"a body that is not protobuf", "POST", configMaps, as(asProtobuf), "rubbish", 400, bad, "the object provided is unrecognized (must be of type ConfigMap)", ""},
		{"truncated protobuf", "POST", configMaps, as(asProtobuf), "k8s\x00\x0a\x0f\x0a\x02v1", 400, bad, "unexpected EOF", ""},
		{"another kind", "POST", configMaps, as(asJSON), `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"new"}}`, 400, bad, `Secret in version "v1" cannot be handled as a ConfigMap`, ""},
		{"an unknown kind", "POST", configMaps, as(asJSON), `{"apiVersion":"v1","kind":"Thing"}`, 400, bad, `Thing in version "v1" cannot be handled as a ConfigMap: no kind "Thing" is registered for version "v1" in scheme`, ""},
		{"another version", "POST", deployments, as(asJSON), `{"apiVersion":"apps/v2","kind":"Deployment"}`, 400, bad, `Deployment in version "v2" cannot be handled as a Deployment`, ""},
		{"a value of a wrong type", "POST", configMaps, as(asJSON), aMap("", `,"data":{"a":1}`), 400, bad, `ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string`, ""},

		// fieldValidation.
		{"doubled and unknown fields, strictly", "POST", configMaps + "?fieldValidation=Strict", as(asJSON), doubled, 400, bad, `strict decoding error: duplicate field "data.a", unknown field "unheardOf"`, ""},
		{"doubled and unknown fields", "POST", configMaps + "?dryRun=All", as(asJSON), doubled, 201, "", "", `unknown field "unheardOf"`},
		{"doubled and unknown fields, with a warning", "POST", configMaps + "?dryRun=All&fieldValidation=Warn", as(asJSON), doubled, 201, "", "", `duplicate field "data.a"`},
		{"doubled and unknown fields, ignored", "POST", configMaps + "?dryRun=All&fieldValidation=Ignore", as(asJSON), doubled, 201, "", "", "none"},
		{"unknown fields in YAML, strictly", "POST", configMaps + "?fieldValidation=Strict", as(asYAML), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\nunheardOf: 1\n", 400, bad, `strict decoding error: unknown field "unheardOf"`, ""},
		{"doubled fields in YAML, strictly", "POST", configMaps + "?fieldValidation=Strict", as(asYAML), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata:\n  a: x\n  a: z\n", 400, bad, `key "a" already set in map`, ""},
		{"doubled fields in YAML", "POST", configMaps + "?dryRun=All", as(asYAML), "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: new}\ndata:\n  a: x\n  a: z\n", 201, "", "", `key "a" already set in map`},
		{"unknown fields in a merge patch, strictly", "PATCH", theMap + "?fieldValidation=Strict", as(mergePatch), `{"unheardOf":1}`, 422, invalid, `strict decoding error: unknown field "unheardOf"`, ""},
		{"doubled fields in a merge patch, strictly", "PATCH", theMap + "?fieldValidation=Strict", as(mergePatch), `{"data":{"a":"1","a":"2"}}`, 422, invalid, `duplicate field "data.a"`, ""},
		{"doubled fields in a merge patch", "PATCH", theMap + "?dryRun=All", as(mergePatch), `{"data":{"a":"1","a":"2"}}`, 200, "", "", `duplicate field "data.a"`},
		{"unknown fields in a strategic patch, strictly", "PATCH", theMap + "?fieldValidation=Strict", as(strategic), `{"unheardOf":1}`, 422, invalid, `unknown field "unheardOf"`, ""},
		{"unknown fields in a JSON patch, strictly", "PATCH", theMap + "?fieldValidation=Strict", as(jsonPatch), `[{"op":"add","path":"/unheardOf","value":1,"other":1}]`, 422, invalid, `json patch unknown field "[0].other"`, ""},
		{"unknown fields in a JSON patch, ignored", "PATCH", theMap + "?dryRun=All&fieldValidation=Ignore", as(jsonPatch), `[{"op":"add","path":"/unheardOf","value":1,"other":1}]`, 200, "", "", "none"},
		{"another fieldValidation", "POST", configMaps + "?fieldValidation=Sometimes", as(asJSON), aMap("", ""), 422, invalid, `fieldValidation: Unsupported value: "Sometimes"`, ""},
		{"another dryRun", "POST", configMaps + "?dryRun=Some", as(asJSON), aMap("", ""), 422, invalid, `dryRun: Unsupported value: ["Some"]`, ""},
		{"a field manager that is too long", "POST", configMaps + "?fieldManager=" + strings.Repeat("x", 129), as(asJSON), aMap("", ""), 422, invalid, "fieldManager: Too long", ""},

		// Patches.
		{"a patch that is not JSON", "PATCH", theMap, as(mergePatch), "{", 400, bad, "invalid JSON patch", ""},
		{"a merge patch that is a list", "PATCH", theMap, as(mergePatch), "[]", 400, bad, "error decoding patch: json: cannot unmarshal array", ""},
		{"a patch of nothing that is not JSON", "PATCH", configMaps + "/none", as(mergePatch), "{", 400, bad, "invalid JSON patch", ""},
		{"a patch of nothing that is a list", "PATCH", configMaps + "/none", as(mergePatch), "[]", 404, metav1.StatusReasonNotFound, `configmaps "none" not found`, ""},
		{"an empty patch", "PATCH", theMap, as(strategic), "", 400, bad, "invalid JSON patch", ""},
		{"a compressed patch", "PATCH", theMap, as(mergePatch), "\x1f\x8b\x08", 400, bad, "invalid JSON patch", ""},
		{"a merge patch that is null", "PATCH", theMap, as(mergePatch), "null", 400, bad, "Invalid JSON Patch", ""},
		{"a strategic patch that is null", "PATCH", theMap, as(strategic), "null", 200, "", "", "none"},
		{"a strategic patch that is a list", "PATCH", theMap, as(strategic), "[]", 400, bad, "json: cannot unmarshal array into Go value of type map[string]interface {}", ""},
		{"a strategic patch of another kind", "PATCH", theMap, as(strategic), `{"apiVersion":"apps/v1","kind":"Deployment"}`, 200, "", "", "none"},
		{"a merge patch of another kind", "PATCH", theMap, as(mergePatch), `{"kind":"ServiceAccount"}`, 422, invalid, "converting (v1.ServiceAccount) to (core.ConfigMap): unknown conversion", ""},
		{"a merge patch of an unknown kind", "PATCH", theMap, as(mergePatch), `{"kind":"Thing"}`, 422, invalid, `no kind "Thing" is registered for version "v1" in scheme`, ""},
		{"a JSON patch that is an object", "PATCH", theMap, as(jsonPatch), "{}", 400, bad, "error decoding patch: json: cannot unmarshal object", ""},
		{"an unknown operation", "PATCH", theMap, as(jsonPatch), `[{"op":"frobnicate","path":"/data"}]`, 422, invalid, rejected, ""},
		{"a missing path", "PATCH", theMap, as(jsonPatch), `[{"op":"remove","path":"/data/none"}]`, 422, invalid, rejected, ""},
		{"a test that fails", "PATCH", theMap, as(jsonPatch), `[{"op":"test","path":"/kind","value":"Secret"}]`, 422, invalid, rejected, ""},
		{"an unknown directive", "PATCH", theMap, as(strategic), `{"data":{"$patch":"frobnicate"}}`, 400, bad, "", ""},
		{"a patch of the name", "PATCH", theMap, as(mergePatch), `{"metadata":{"name":"other"}}`, 400, bad, "the name of the object (other) does not match the name on the URL (theirs)", ""},
		{"an unknown kind of patch", "PATCH", theMap, as("application/thing"), "{}", 415, media, "the body of the request was in an unknown format - accepted media types include:", ""},

		// Media types.
		{"a body of an unknown type", "POST", configMaps, as("text/plain"), aMap("", ""), 415, media, "the body of the request was in an unknown format - accepted media types include:", ""},
		{"a malformed media type", "POST", configMaps, as("/;/"), aMap("", ""), 415, media, "the body of the request was in an unknown format", ""},
		{"a response of an unknown type", "GET", theMap, map[string]string{"Accept": "text/html"}, "", 406, metav1.StatusReasonNotAcceptable, "only the following media types are accepted: application/json", ""},
		{"a response of an unknown kind", "GET", theMap, map[string]string{"Accept": "application/json;as=Thing;g=meta.k8s.io;v=v1"}, "", 406, metav1.StatusReasonNotAcceptable, "only the following media types are accepted", ""},

		// Queries.
		{"a malformed label selector", "GET", configMaps + "?labelSelector=a+in", nil, "", 400, bad, "unable to parse requirement: found '' expected: '('", ""},
		{"a label selector with a bad name", "GET", configMaps + "?labelSelector=a%20b%3Dc", nil, "", 400, bad, "unable to parse requirement", ""},
		{"a malformed field selector", "GET", configMaps + "?fieldSelector=a", nil, "", 400, bad, "invalid selector: 'a'; can't understand 'a'", ""},
		{"a field that selectors do not support", "GET", configMaps + "?fieldSelector=data.a%3Db", nil, "", 400, bad, `"data.a" is not a known field selector: only "metadata.name", "metadata.namespace"`, ""},
		{"a malformed continue token", "GET", configMaps + "?limit=1&continue=x", nil, "", 400, bad, "continue key is not valid", ""},
		{"a continue token of another list", "GET", configMaps + "?limit=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi8uLi9zZWNyZXRzIn0", nil, "", 400, bad, "continue key is not valid", ""},
		{"a limit that is not a number", "GET", configMaps + "?limit=x", nil, "", 400, bad, "invalid syntax", ""},
		{"a resourceVersion to read at that is not a number", "GET", theMap + "?resourceVersion=x", nil, "", 400, bad, "", ""},
		{"a resourceVersion to list at that is not a number", "GET", configMaps + "?resourceVersion=x", nil, "", 400, bad, "", ""},
		{"a resourceVersion to watch from that is not a number", "GET", configMaps + "?watch=1&resourceVersion=x", nil, "", 422, invalid, "resourceVersion: Invalid value: \"x\"", ""},
		{"a resourceVersionMatch alone", "GET", configMaps + "?resourceVersionMatch=Exact", nil, "", 422, invalid, "resourceVersionMatch is forbidden unless resourceVersion is provided", ""},

		// Paths and methods.
		{"a path to another directory", "GET", configMaps + "/%2e%2e", nil, "", 0, "", "", ""},
		{"a name with a percent sign", "GET", configMaps + "/%25", nil, "", 400, bad, "may not contain '%'", ""},
		{"an unknown resource", "GET", "/api/v1/things", nil, "", 404, metav1.StatusReasonNotFound, "the server could not find the requested resource", ""},
		{"an unsupported method", "POST", theMap, as(asJSON), aMap("", ""), 405, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource", ""},
	}
}

// TestBadInput makes every request of the table, and checks that the server still works.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client, err := rest.HTTPClientFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	if status, _, _ := send(t, client, s.URL, input{method: "POST", path: configMaps, header: as(asJSON), body: `{"metadata":{"name":"theirs"},"data":{"a":"1"}}`}); status.Code != 0 {
		t.Fatal(status)
	}
	for _, in := range inputs(t) {
		t.Run(in.name, func(t *testing.T) {
			status, code, warnings := send(t, client, s.URL, in)
			if in.code == 0 { // any error: it depends on the client
				if code < 400 || code >= 500 {
					t.Errorf("got %d, want an error", code)
				}
				return
			}
			if code != in.code || int(status.Code) != in.code && in.code >= 300 {
				t.Errorf("got %d %s, want %d: %s", code, status.Reason, in.code, brief(status.Message))
			}
			if in.code >= 300 && in.reason != "" && status.Reason != in.reason && (in.reason != metav1.StatusReasonUnknown || status.Reason != "") {
				t.Errorf("got the reason %q, want %q", status.Reason, in.reason)
			}
			if !strings.Contains(status.Message, in.says) {
				t.Errorf("got the message\n%s\nwant it to contain\n%s", brief(status.Message), in.says)
			}
			switch {
			case in.warns == "none" && len(warnings) > 0:
				t.Errorf("got the warnings %q, want none", warnings)
			case in.warns != "none" && in.warns != "" && !strings.Contains(strings.ReplaceAll(strings.Join(warnings, " "), `\"`, `"`), in.warns):
				t.Errorf("got the warnings %q, want %s", warnings, in.warns)
			}
		})
	}
	if _, code, _ := send(t, client, s.URL, input{method: "GET", path: configMaps + "/new"}); code != http.StatusNotFound {
		t.Errorf("an object was created: reading it returns %d", code)
	}
}

func brief(message string) string {
	if len(message) > 1000 {
		return message[:1000] + " ..."
	}
	return message
}

// send makes a request and returns the Status of the response, which is empty for an object.
func send(t *testing.T, client *http.Client, url string, in input) (metav1.Status, int, []string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), in.method, url+in.path, strings.NewReader(in.body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range in.header {
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var status metav1.Status
	if response.StatusCode >= 300 {
		if err := json.Unmarshal(data, &status); err != nil || status.Kind != "Status" {
			t.Errorf("the response is not a Status: %v: %s", err, brief(string(data)))
		}
	}
	return status, response.StatusCode, response.Header.Values("Warning")
}
