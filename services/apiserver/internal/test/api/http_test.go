package api_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store/etcdtest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestErrors compares the responses to wrong requests with Kubernetes' codes, reasons and words.
func TestErrors(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	const pods = "/api/v1/namespaces/default/pods"
	js := map[string]string{"Content-Type": "application/json"}
	cases := []struct {
		name, method, path, body string
		header                   map[string]string
		code                     int
		reason                   metav1.StatusReason
		message                  string
	}{
		{name: "unknown object", method: "GET", path: pods + "/x", code: 404, reason: metav1.StatusReasonNotFound, message: `pods "x" not found`},
		{name: "unknown path", method: "GET", path: "/api/v1/rockets", code: 404, reason: metav1.StatusReasonNotFound, message: "the server could not find the requested resource"},
		{name: "unknown group", method: "GET", path: "/apis/none.io/v1/rockets", code: 404, reason: metav1.StatusReasonNotFound, message: "the server could not find the requested resource"},
		{name: "unknown subresource", method: "GET", path: pods + "/x/rocket", code: 404, reason: metav1.StatusReasonNotFound, message: "the server could not find the requested resource"},
		{name: "method", method: "PUT", path: pods, body: harness.PodJSON, header: js, code: 405, reason: metav1.StatusReasonMethodNotAllowed, message: "the server does not allow this method on the requested resource"},
		{name: "format wanted", method: "GET", path: pods, header: map[string]string{"Accept": "image/png"}, code: 406, reason: metav1.StatusReasonNotAcceptable,
			message: "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{name: "yaml watch", method: "GET", path: pods + "?watch=1", header: map[string]string{"Accept": "application/yaml"}, code: 406, reason: metav1.StatusReasonNotAcceptable,
			message: "only the following media types are accepted: application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"},
		{name: "format sent", method: "POST", path: pods, body: harness.PodJSON, header: map[string]string{"Content-Type": "text/csv"}, code: 415, reason: metav1.StatusReasonUnsupportedMediaType,
			message: "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{name: "format of a patch", method: "PATCH", path: pods + "/x", body: "{}", header: js, code: 415, reason: metav1.StatusReasonUnsupportedMediaType,
			message: "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json, application/apply-patch+yaml"},
		{name: "too large", method: "POST", path: pods, body: strings.Repeat("x", 4<<20), header: js, code: 413, reason: metav1.StatusReasonRequestEntityTooLarge, message: "Request entity too large: limit is 3145728"},
		{name: "no JSON", method: "POST", path: pods, body: "{", header: js, code: 400, reason: metav1.StatusReasonBadRequest,
			message: "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: unexpected end of JSON input ({)"},
		{name: "another kind", method: "POST", path: pods, body: `{"apiVersion":"v1","kind":"ConfigMap"}`, header: js, code: 400, reason: metav1.StatusReasonBadRequest,
			message: `ConfigMap in version "v1" cannot be handled as a Pod: converting (v1.ConfigMap) to (core.Pod): unknown conversion`},
		{name: "another version", method: "POST", path: pods, body: `{"apiVersion":"apps/v1","kind":"Deployment"}`, header: js, code: 400, reason: metav1.StatusReasonBadRequest,
			message: `Deployment in version "v1" cannot be handled as a Pod: converting (v1.Deployment) to (core.Pod): unknown conversion`},
		{name: "unknown field, strict", method: "POST", path: pods + "?fieldValidation=Strict", body: strings.Replace(harness.PodJSON, `"spec":{`, `"spec":{"foo":1,`, 1), header: js, code: 400, reason: metav1.StatusReasonBadRequest,
			message: `Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"`},
		{name: "unknown field validation", method: "POST", path: pods + "?fieldValidation=Loose", body: harness.PodJSON, header: js, code: 422, reason: metav1.StatusReasonInvalid,
			message: `CreateOptions.meta.k8s.io "" is invalid: fieldValidation: Unsupported value: "Loose": supported values: "", "Ignore", "Strict", "Warn"`},
		{name: "dry run", method: "POST", path: pods + "?dryRun=Some", body: harness.PodJSON, header: js, code: 422, reason: metav1.StatusReasonInvalid,
			message: `CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["Some"]: supported values: "All"`},
		{name: "label selector", method: "GET", path: pods + "?labelSelector=a%3D%3D%3Db", code: 400, reason: metav1.StatusReasonBadRequest,
			message: `unable to parse requirement: found '=', expected: identifier`},
		{name: "field selector", method: "GET", path: pods + "?fieldSelector=spec.foo%3Db", code: 400, reason: metav1.StatusReasonBadRequest, message: `field label not supported: spec.foo`},
		{name: "limit", method: "GET", path: pods + "?limit=many", code: 400, reason: metav1.StatusReasonBadRequest, message: `strconv.ParseInt: parsing "many": invalid syntax`},
		{name: "patch of nothing", method: "PATCH", path: pods + "/x", body: "{}", header: map[string]string{"Content-Type": "application/merge-patch+json"}, code: 404, reason: metav1.StatusReasonNotFound, message: `pods "x" not found`},
		{name: "patch of a lease that a PUT would make", method: "PATCH", path: "/apis/coordination.k8s.io/v1/namespaces/default/leases/x", body: "{}",
			header: map[string]string{"Content-Type": "application/merge-patch+json"}, code: 404, reason: metav1.StatusReasonNotFound, message: `leases.coordination.k8s.io "x" not found`},
		{name: "server-side apply of nobody", method: "PATCH", path: pods + "/x", body: "{}", header: map[string]string{"Content-Type": "application/apply-patch+yaml"}, code: 422, reason: metav1.StatusReasonInvalid,
			message: `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			res, body := s.Exchange(admin, c.method, c.path, c.body, c.header)
			var status metav1.Status
			if err := yaml.Unmarshal([]byte(body), &status); err != nil {
				t.Fatalf("got %s %q: %v", res.Status, body, err)
			}
			if res.StatusCode != c.code || int(status.Code) != c.code || status.Kind != "Status" || status.Status != metav1.StatusFailure {
				t.Errorf("got %d %s", res.StatusCode, body)
			}
			if status.Reason != c.reason || status.Message != c.message {
				t.Errorf("got  %s %s\nwant %s %s", status.Reason, status.Message, c.reason, c.message)
			}
			if c.code == 405 && res.Header.Get("Allow") != "GET, POST, DELETE" {
				t.Errorf("allows %q", res.Header.Get("Allow"))
			}
			if res.Header.Get("Audit-Id") == "" {
				t.Error("the response has no audit ID")
			}
		})
	}
}

// TestIdentity checks access without RBAC rules of the administrator's.
func TestIdentity(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	anonymous := rest.AnonymousClientConfig(s.Admin())
	wrong := rest.AnonymousClientConfig(s.Admin())
	wrong.BearerToken = "wrong"
	scheduler, node := s.Service("system:kube-scheduler"), s.Service("system:node:n1")
	controllers := s.Service("system:kube-controller-manager")
	for _, c := range []struct {
		name, path string
		config     *rest.Config
		code       int
		message    string
	}{
		{"health", "/livez", anonymous, 200, ""},
		{"version", "/version", anonymous, 200, ""},
		{"anonymous", "/api/v1/pods", anonymous, 403, `pods is forbidden: User "system:anonymous" cannot list resource "pods" in API group "" at the cluster scope`},
		{"anonymous status", "/statusz", anonymous, 403, `forbidden: User "system:anonymous" cannot get path "/statusz"`},
		{"anonymous path", "/metrics", anonymous, 403, `forbidden: User "system:anonymous" cannot get path "/metrics"`},
		{"wrong token", "/api/v1/pods", wrong, 401, "Unauthorized"},
		{"wrong token on a public path", "/livez", wrong, 401, "Unauthorized"},
		{"scheduler reads pods", "/api/v1/pods", scheduler, 200, ""},
		{"scheduler reads secrets", "/api/v1/namespaces/default/secrets/x", scheduler, 403, `secrets "x" is forbidden: User "system:kube-scheduler" cannot get resource "secrets" in API group "" in the namespace "default"`},
		{"node reads pods", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1", node, 200, ""},
		{"node reads deployments", "/apis/apps/v1/deployments", node, 403, `deployments.apps is forbidden: User "system:node:n1" cannot list resource "deployments" in API group "apps" at the cluster scope`},
		{"controllers read secrets", "/api/v1/secrets", controllers, 200, ""},
		{"controllers read the trace", "/debug/garboard/trace", controllers, 403, `forbidden: User "system:kube-controller-manager" cannot get path "/debug/garboard/trace"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, body := s.Exchange(c.config, "GET", c.path, "", nil)
			if res.StatusCode != c.code {
				t.Fatalf("got %s %s", res.Status, body)
			}
			if c.message == "" {
				return
			}
			var status metav1.Status
			if err := json.Unmarshal([]byte(body), &status); err != nil || status.Message != c.message {
				t.Errorf("got  %q (%v)\nwant %q", status.Message, err, c.message)
			}
		})
	}
}

// TestForms checks the forms of responses: tables, metadata, YAML, indented, compressed.
func TestForms(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	const table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
	get := func(path, accept string) (*http.Response, string) {
		t.Helper()
		res, body := s.Exchange(admin, "GET", path, "", map[string]string{"Accept": accept})
		if res.StatusCode != 200 {
			t.Fatalf("%s: %s %s", path, res.Status, body)
		}
		return res, body
	}
	var parsed metav1.Table
	_, body := get("/api/v1/namespaces?includeObject=None", table)
	if err := json.Unmarshal([]byte(body), &parsed); err != nil {
		t.Fatal(err)
	}
	if parsed.Kind != "Table" || len(parsed.Rows) != 4 || len(parsed.ColumnDefinitions) < 3 || parsed.ResourceVersion == "" || parsed.Rows[0].Object.Raw != nil {
		t.Errorf("a table: %s", body)
	}
	_, body = get("/api/v1/namespaces/default", table)
	if parsed = (metav1.Table{}); json.Unmarshal([]byte(body), &parsed) != nil || len(parsed.Rows) != 1 ||
		!strings.Contains(string(parsed.Rows[0].Object.Raw), `"kind":"PartialObjectMetadata"`) {
		t.Errorf("the table of one object: %s", body)
	}
	_, body = get("/api/v1/namespaces/default?includeObject=Object", table)
	if !strings.Contains(body, `"kind":"Namespace"`) {
		t.Errorf("a table with objects: %s", body)
	}
	_, body = get("/api/v1/namespaces", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io")
	if !strings.Contains(body, `"kind":"PartialObjectMetadataList"`) || strings.Contains(body, `"status"`) {
		t.Errorf("metadata only: %s", body)
	}
	_, body = get("/api/v1/namespaces/default", "application/yaml")
	if !strings.HasPrefix(body, "apiVersion: v1\nkind: Namespace\n") {
		t.Errorf("YAML: %s", body)
	}
	_, body = get("/api/v1/namespaces/default?pretty=true", "application/json")
	if !strings.HasPrefix(body, "{\n  \"kind\": \"Namespace\"") {
		t.Errorf("indented: %s", body)
	}
	res, body := get("/api/v1/namespaces", "")
	if res.Header.Get("Content-Type") != "application/json" || strings.Contains(body, "\n  ") {
		t.Errorf("plain: %v %s", res.Header, body)
	}
	if strings.Contains(body, `"kind":"Namespace",`) {
		t.Errorf("the items of a list name their kinds: %s", body)
	}
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"foo":1,"data":{"a":"b","a":"c"}}`
	js := map[string]string{"Content-Type": "application/json"}
	res, answer := s.Exchange(s.Admin(), "POST", "/api/v1/namespaces/default/configmaps", body, js)
	if res.StatusCode != http.StatusCreated {
		t.Fatal(answer)
	}
	want := []string{`299 - "unknown field \"foo\""`, `299 - "duplicate field \"data.a\""`}
	got := res.Header.Values("Warning")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("warned %q, want %q", got, want)
	}
	res, answer = s.Exchange(s.Admin(), "POST", "/api/v1/namespaces/default/configmaps?fieldValidation=Ignore&dryRun=All", strings.Replace(body, `"c"}`, `"d"}`, 1), js)
	if res.StatusCode != http.StatusCreated || len(res.Header.Values("Warning")) > 0 {
		t.Errorf("%s %v %s", res.Status, res.Header, answer)
	}
	if res, _ := s.Exchange(s.Admin(), "GET", "/api/v1/namespaces/default/configmaps/d", "", nil); res.StatusCode != http.StatusNotFound {
		t.Errorf("a dry run wrote: %s", res.Status)
	}
	res, answer = s.Exchange(s.Admin(), "DELETE", "/api/v1/namespaces/default/configmaps/c", "", nil)
	var status metav1.Status
	if err := json.Unmarshal([]byte(answer), &status); err != nil || res.StatusCode != 200 || status.Status != metav1.StatusSuccess ||
		status.Details == nil || status.Details.Name != "c" || status.Details.Kind != "configmaps" || status.Details.UID == "" {
		t.Errorf("deleted: %s %s", res.Status, answer)
	}
}

func TestCompression(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	big := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"big"},"data":{"k":"` + strings.Repeat("ab", 100_000) + `"}}`
	if res, body := s.Exchange(s.Admin(), "POST", "/api/v1/namespaces/default/configmaps", big, map[string]string{"Content-Type": "application/json"}); res.StatusCode != 201 {
		t.Fatal(body)
	}
	// Setting the header by hand keeps the client from decompressing.
	res, body := s.Exchange(s.Admin(), "GET", "/api/v1/namespaces/default/configmaps/big", "", map[string]string{"Accept-Encoding": "gzip"})
	if res.Header.Get("Content-Encoding") != "gzip" || len(body) > 20_000 {
		t.Fatalf("%d bytes, %v", len(body), res.Header)
	}
	reader, err := gzip.NewReader(bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil || !strings.Contains(string(plain), "abababab") {
		t.Errorf("decompressed to %d bytes: %v", len(plain), err)
	}
}

func TestOperations(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	for path, want := range map[string]string{
		"/livez": "ok", "/readyz": "ok", "/healthz": "ok", "/readyz/etcd": "ok",
		"/readyz?verbose":                         "[+]ping ok\n[+]etcd ok\n[+]watch-cache ok\n[+]poststarthook/rbac/bootstrap-roles ok\n[+]shutdown ok\nreadyz check passed\n",
		"/livez?verbose&exclude=ping":             "[+]ping excluded: ok\nlivez check passed\n",
		"/version":                                `"gitVersion": "v1.37`,
		"/debug/garboard/trace?resource=cronjobs": "[]",
		"/statusz":                                "apiserver statusz",
		"/":                                       `"/openapi/v3"`,
		"/openapi/v3":                             `"apis/apps/v1"`,
		"/apis":                                   `"APIGroupList"`,
	} {
		res, body := s.Exchange(admin, "GET", path, "", nil)
		if res.StatusCode != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %s %.300s, want %q", path, res.Status, body, want)
		}
	}
	// A request is counted after its response.
	harness.Eventually(t, "requests are counted", func() bool {
		res, body := s.Exchange(admin, "GET", "/metrics", "", nil)
		return res.StatusCode == 200 && strings.Contains(body, `apiserver_request_total{code="200"`)
	})
	s.Exchange(admin, "POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"traced"}}`, map[string]string{"Content-Type": "application/json"})
	_, body := s.Exchange(admin, "GET", "/debug/garboard/trace?name=traced&step=request", "", nil)
	var hops []struct {
		Detail   string
		Revision int64
		UID      string
	}
	if err := json.Unmarshal([]byte(body), &hops); err != nil || len(hops) != 1 || hops[0].Revision == 0 || hops[0].UID == "" || !strings.HasPrefix(hops[0].Detail, "create") {
		t.Errorf("hops: %s (%v)", body, err)
	}
}

// TestTableWatch watches as `kubectl get -w` does: rows as they change, the columns once.
func TestTableWatch(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	client, err := rest.HTTPClientFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/api/v1/namespaces?watch=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", inTables)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	decoder := json.NewDecoder(res.Body)
	for n, name := range []string{"default", "kube-node-lease", "kube-public", "kube-system", "fifth"} {
		if name == "fifth" {
			s.Exchange(s.Admin(), "POST", "/api/v1/namespaces", `{"metadata":{"name":"fifth"}}`, map[string]string{"Content-Type": "application/json"})
		}
		var event struct {
			Type   string
			Object metav1.Table
		}
		if err := decoder.Decode(&event); err != nil {
			t.Fatal(err)
		}
		if event.Type != "ADDED" || event.Object.Kind != "Table" || len(event.Object.Rows) != 1 || (len(event.Object.ColumnDefinitions) > 0) != (n == 0) {
			t.Fatalf("event %d: got %+v", n, event)
		}
		if got := event.Object.Rows[0].Cells[0]; got != name {
			t.Errorf("event %d is about %v, not %s", n, got, name)
		}
	}
}

// A process's debug page is shown to users who may read the path.
func TestDebug(t *testing.T) {
	t.Parallel()
	s := harness.New(t, etcdtest.New(t))
	s.Change = func(cfg *apiserver.Config) {
		cfg.Debug = map[string]http.Handler{"/debug/garboard/sheep": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "three")
		})}
	}
	s.Start()
	if res, body := s.Exchange(s.Admin(), "GET", "/debug/garboard/sheep", "", nil); res.StatusCode != 200 || body != "three" {
		t.Errorf("the administrator got %s %s", res.Status, body)
	}
	if res, _ := s.Exchange(s.Admin(), "POST", "/debug/garboard/sheep", "", nil); res.StatusCode != 405 {
		t.Errorf("POST: got %s", res.Status)
	}
	anonymous := rest.AnonymousClientConfig(s.Admin())
	if res, body := s.Exchange(anonymous, "GET", "/debug/garboard/sheep", "", nil); res.StatusCode != 403 || strings.Contains(body, "three") {
		t.Errorf("anonymous got %s %s", res.Status, body)
	}
}
