package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
	"github.com/garboard/garboard/services/apiserver/internal/storage/store"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// labeller is a webhook server: /label sets a label, /again counts by an annotation, /guard refuses
// what is labelled guarded, /broken fails.
type labeller struct {
	mu    sync.Mutex
	asked []string
	last  *admissionv1.AdmissionRequest
}

func (l *labeller) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.URL.Path == "/broken" {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	q := review.Request
	l.mu.Lock()
	what := fmt.Sprintf("%s %s %s", r.URL.Path, q.Operation, q.Resource.Resource)
	if q.SubResource != "" {
		what += "/" + q.SubResource + " " + q.Kind.Kind
	}
	if *q.DryRun {
		what += " dry"
	}
	l.asked, l.last = append(l.asked, what), q
	l.mu.Unlock()
	answer := &admissionv1.AdmissionResponse{UID: q.UID, Allowed: true, AuditAnnotations: map[string]string{"seen": "yes"}}
	patch := func(text string) {
		answer.Patch, answer.PatchType = []byte(text), new(admissionv1.PatchTypeJSONPatch)
	}
	var object struct{ Metadata metav1.ObjectMeta }
	raw := q.Object.Raw
	if len(raw) == 0 || string(raw) == "null" {
		raw = q.OldObject.Raw
	}
	_ = json.Unmarshal(raw, &object)
	switch r.URL.Path {
	case "/label":
		answer.Warnings = []string{"labelled"}
		if q.Kind.Kind == "Scale" {
			patch(`[{"op":"replace","path":"/spec/replicas","value":7}]`)
		} else if len(q.Object.Raw) > 0 && object.Metadata.Labels["hooked"] == "" {
			patch(`[{"op":"add","path":"/metadata/labels/hooked","value":"yes"},{"op":"add","path":"/spec/activeDeadlineSeconds","value":60}]`)
		}
	case "/again":
		patch(fmt.Sprintf(`[{"op":"add","path":"/metadata/annotations","value":{"hooked":%q}}]`, object.Metadata.Labels["hooked"]))
	case "/guard":
		if object.Metadata.Labels["guarded"] != "" {
			answer.Allowed, answer.Result = false, &metav1.Status{Code: 403, Reason: metav1.StatusReasonForbidden, Message: "it is guarded"}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answer})
}

// calls returns what was asked since the last call of calls.
func (l *labeller) calls() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	asked := l.asked
	l.asked = nil
	return asked
}

// TestWebhooks has webhooks that a Service serves change and refuse requests.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	policy, log := filepath.Join(dir, "policy.yaml"), filepath.Join(dir, "audit.log")
	const text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Request, resources: [{group: \"\", resources: [pods]}]}]\n"
	if err := os.WriteFile(policy, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := harness.StartWith(t, func(cfg *apiserver.Config) { cfg.Audit.PolicyFile, cfg.Audit.LogPath = policy, log })
	hooks := &labeller{}
	server := webhooktest.Start(t, hooks, "hook.default.svc")
	admin := s.Admin()
	send := func(method, path, body string, code int) (string, []string) {
		t.Helper()
		content := "application/json"
		if method == "PATCH" {
			content = "application/merge-patch+json"
		}
		res, answer := s.Exchange(admin, method, path, body, map[string]string{"Content-Type": content})
		if res.StatusCode != code {
			t.Fatalf("%s %s: got %d %s", method, path, res.StatusCode, answer)
		}
		return answer, res.Header.Values("Warning")
	}
	asked := func(want ...string) {
		t.Helper()
		if got := hooks.calls(); !slices.Equal(got, want) {
			t.Errorf("asked %q, want %q", got, want)
		}
	}
	service(t, s, server.Port)
	configuration := func(kind, name, webhooks string) string {
		return `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"` + kind + `","metadata":{"name":"` + name + `"},"webhooks":[` + webhooks + `]}`
	}
	bundle, err := json.Marshal(server.CABundle)
	if err != nil {
		t.Fatal(err)
	}
	hook := func(path, more string) string {
		return `{"name":"` + path + `.example.com","clientConfig":{"caBundle":` + string(bundle) + `,"service":{"namespace":"default","name":"hook","path":"/` + path + `"}},
			"rules":[{"operations":["*"],"apiGroups":["","apps"],"apiVersions":["*"],"resources":["pods","pods/*","*/scale"]}],
			"sideEffects":"None","admissionReviewVersions":["v1"]` + more + `}`
	}
	const registration, pods = "/apis/admissionregistration.k8s.io/v1/", "/api/v1/namespaces/default/pods"
	pod := func(name, labels string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + name + `","labels":{` + labels + `}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	}
	send("POST", "/api/v1/namespaces/default/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`, 201)

	send("POST", registration+"mutatingwebhookconfigurations", configuration("MutatingWebhookConfiguration", "a",
		hook("again", `,"reinvocationPolicy":"IfNeeded","objectSelector":{"matchLabels":{"again":"yes"}}`)+","+hook("label", "")), 201)
	answer, warnings := send("POST", pods+"?fieldManager=me", pod("p", `"a":"b"`), 201)
	asked("/label CREATE pods")
	if !strings.Contains(answer, `"hooked":"yes"`) || !strings.Contains(answer, `"activeDeadlineSeconds":60`) || strings.Contains(answer, `"f:hooked"`) {
		t.Errorf("got %s", answer)
	}
	if want := []string{`299 - "labelled"`}; !slices.Equal(warnings, want) {
		t.Errorf("got warnings %q, want %q", warnings, want)
	}
	if q := hooks.last; string(q.Options.Raw) != `{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"me"}` || q.UserInfo.Username == "" || q.Name != "p" || q.Namespace != "default" {
		t.Errorf("got %+v, options %s", q, q.Options.Raw)
	}
	answer, _ = send("POST", pods, pod("q", `"again":"yes"`), 201)
	asked("/again CREATE pods", "/label CREATE pods", "/again CREATE pods")
	if !strings.Contains(answer, `"annotations":{"hooked":"yes"}`) {
		t.Errorf("got %s", answer)
	}
	answer, _ = send("POST", pods+"?dryRun=All", pod("dry", `"a":"b"`), 201)
	asked("/label CREATE pods dry")
	if !strings.Contains(answer, `"hooked":"yes"`) {
		t.Errorf("got %s", answer)
	}
	send("GET", pods+"/dry", "", 404)

	send("POST", "/apis/apps/v1/namespaces/default/deployments", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":0,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`, 201)
	answer, _ = send("PATCH", "/apis/apps/v1/namespaces/default/deployments/d/scale", `{"spec":{"replicas":3}}`, 200)
	asked("/label UPDATE deployments/scale Scale")
	if !strings.Contains(answer, `"replicas":7`) {
		t.Errorf("got %s", answer)
	}
	send("PATCH", pods+"/p/status", `{"status":{"message":"m"}}`, 200)
	asked("/label UPDATE pods/status Pod")
	const series = `apiserver_admission_webhook_request_total{code="200",name="label.example.com",operation="CREATE",rejected="false",type="admit"}`
	if body, _ := send("GET", "/metrics", "", 200); !strings.Contains(body, series+" 3\n") {
		t.Errorf("the metrics lack %s 3", series)
	}
	send("DELETE", registration+"mutatingwebhookconfigurations/a", "", 200)

	send("POST", registration+"validatingwebhookconfigurations", configuration("ValidatingWebhookConfiguration", "b", hook("guard", "")), 201)
	const refusal = `"message":"admission webhook \"guard.example.com\" denied the request: it is guarded","reason":"Forbidden","code":403`
	for _, tc := range []struct{ method, path, body, asked string }{
		{"POST", pods, pod("g", `"guarded":"yes"`), "/guard CREATE pods"},
		{"PATCH", pods + "/p", `{"metadata":{"labels":{"guarded":"yes"}}}`, "/guard UPDATE pods"},
	} {
		if answer, _ := send(tc.method, tc.path, tc.body, 403); !strings.Contains(answer, refusal) {
			t.Errorf("got %s", answer)
		}
		asked(tc.asked)
	}
	send("POST", pods+"/p/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`, 201)
	asked("/guard CREATE pods/eviction Eviction")

	send("POST", registration+"validatingwebhookconfigurations", configuration("ValidatingWebhookConfiguration", "c", hook("broken", "")), 201)
	const failure = `Internal error occurred: failed calling webhook \"broken.example.com\": failed to call webhook: an error on the server (\"broken\") has prevented the request from succeeding`
	if answer, _ := send("POST", pods, pod("f", `"a":"b"`), 500); !strings.Contains(answer, failure) {
		t.Errorf("got %s", answer)
	}
	send("PATCH", registration+"validatingwebhookconfigurations/c", `{"webhooks":[`+hook("broken", `,"failurePolicy":"Ignore"`)+`]}`, 200)
	send("POST", pods, pod("f", `"a":"b"`), 201)
	asked("/guard CREATE pods", "/guard CREATE pods")
	send("DELETE", pods+"/f", "", 200)
	asked("/guard DELETE pods")

	body, _ := send("GET", "/metrics", "", 200)
	for _, want := range []string{
		`apiserver_admission_webhook_rejection_count{error_type="no_error",name="guard.example.com",operation="CREATE",rejection_code="403",type="validating"} 1`,
		`apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="broken.example.com",operation="CREATE",rejection_code="500",type="validating"} 1`,
		`apiserver_admission_webhook_fail_open_count{name="broken.example.com",type="validating"} 2`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if strings.Contains(body, series) {
		t.Errorf("the metrics keep %s of a webhook that is deleted", series)
	}
	s.Stop()
	recorded, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"label.example.com/seen":"yes"`, `"guard.example.com/seen":"yes"`,
		`"mutation.webhook.admission.k8s.io/round_0_index_1":"{\"configuration\":\"a\",\"webhook\":\"label.example.com\",\"mutated\":true}"`,
		`"mutation.webhook.admission.k8s.io/round_1_index_0":"{\"configuration\":\"a\",\"webhook\":\"again.example.com\",\"mutated\":true}"`,
		`"patch.webhook.admission.k8s.io/round_0_index_1":"{\"configuration\":\"a\",\"webhook\":\"label.example.com\",\"patch\":[{\"op\":\"add\",\"path\":\"/metadata/labels/hooked\",\"value\":\"yes\"},`,
		`"failed-open.validating.webhook.admission.k8s.io/round_0_index_1":"broken.example.com"`,
	} {
		if !strings.Contains(string(recorded), want) {
			t.Errorf("the audit log lacks %s", want)
		}
	}
}

// service creates the Service "hook", which is served at a port of this host. It writes the EndpointSlice
// into etcd, since the API allows no loopback addresses.
func service(t *testing.T, s *harness.Server, port int32) {
	t.Helper()
	clients := harness.Typed(t, s.Admin())
	_, err := clients.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "https", Port: 443}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	table := scheme.New()
	st, err := store.Open(t.Context(), store.Config{Servers: s.Etcd, Prefix: "/registry", Table: table})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	_, err = st.Create(t.Context(), scheme.For[*discoveryv1.EndpointSlice](table), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "hook-1", UID: "hook-1", Labels: map[string]string{discoveryv1.LabelServiceName: "hook"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"127.0.0.1"}}},
		Ports: []discoveryv1.EndpointPort{{Name: new("https"), Port: &port}},
	})
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, "the apiserver's cache has the EndpointSlice", func() bool {
		list, err := clients.DiscoveryV1().EndpointSlices("default").List(t.Context(), metav1.ListOptions{ResourceVersion: "0"})
		return err == nil && slices.ContainsFunc(list.Items, func(s discoveryv1.EndpointSlice) bool { return s.Name == "hook-1" })
	})
}
