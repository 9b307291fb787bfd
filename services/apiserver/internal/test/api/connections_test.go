package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// adder is a webhook server that adds a word to every command, and refuses what is attached to.
func adder(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	q := review.Request
	answer := &admissionv1.AdmissionResponse{UID: q.UID, Allowed: q.Operation == admissionv1.Connect && q.SubResource != "attach"}
	if q.Kind.Kind == "PodExecOptions" {
		answer.Patch, answer.PatchType = []byte(`[{"op":"add","path":"/command/-","value":"--safe"}]`), new(admissionv1.PatchTypeJSONPatch)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(admissionv1.AdmissionReview{TypeMeta: review.TypeMeta, Response: answer})
}

// TestConnections checks who may be connected to a pod: as policies, webhooks and roles say. What the node
// is asked shows what they have changed.
func TestConnections(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	send := func(method, path, body string, header map[string]string) (code int, answer string) {
		t.Helper()
		if header == nil {
			header = map[string]string{"Content-Type": "application/json"}
		}
		res, answer := s.Exchange(admin, method, path, body, header)
		return res.StatusCode, answer
	}
	create := func(path, body string) {
		t.Helper()
		if code, answer := send("POST", path, body, nil); code != http.StatusCreated {
			t.Fatalf("%s: got %d %s", path, code, answer)
		}
	}
	const registration, pods = "/apis/admissionregistration.k8s.io/v1/", "/api/v1/namespaces/default/pods"
	create("/api/v1/namespaces/default/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`)
	create(pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`)
	s.ServeNode("n1", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		query.Del("uid")
		_, _ = fmt.Fprintf(w, "asked for %s %s", r.URL.Path, query.Encode())
	})
	connect := func(method, what string, header map[string]string, code int, says string) {
		t.Helper()
		if got, answer := send(method, pods+"/p/"+what, "", header); got != code || !strings.Contains(answer, says) {
			t.Errorf("%s %s: got %d %s, want %d %s", method, what, got, answer, code, says)
		}
	}
	connect("POST", "exec?command=ls&stdout=true", nil, 200, "asked for /exec/default/p/c command=ls&output=1")
	connect("POST", "attach?stdout=true", nil, 200, "asked for /attach/default/p/c output=1")
	connect("GET", "portforward?ports=80", nil, 200, "asked for /portForward/default/p port=80")
	connect("PUT", "exec?command=ls", nil, 405, "")
	connect("POST", "exec?command=ls&container=z", nil, 400, "container z is not valid for pod p")

	create(registration+"validatingadmissionpolicies", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy",
		"metadata":{"name":"harmless"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CONNECT"],
		"resources":["pods/exec"]}]},"validations":[{"expression":"!('rm' in object.command) && request.operation == 'CONNECT'","message":"removes"}]}}`)
	create(registration+"validatingadmissionpolicybindings", `{"apiVersion":"admissionregistration.k8s.io/v1",
		"kind":"ValidatingAdmissionPolicyBinding","metadata":{"name":"harmless"},"spec":{"policyName":"harmless","validationActions":["Deny"]}}`)
	connect("POST", "exec?command=rm", nil, 422, "denied request: removes")
	connect("POST", "exec?command=ls", nil, 200, "asked for")

	server := webhooktest.Start(t, http.HandlerFunc(adder), "hook.default.svc")
	service(t, s, server.Port)
	bundle, err := json.Marshal(server.CABundle)
	if err != nil {
		t.Fatal(err)
	}
	create(registration+"mutatingwebhookconfigurations", `{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingWebhookConfiguration",
		"metadata":{"name":"adder"},"webhooks":[{"name":"adder.example.com","clientConfig":{"caBundle":`+string(bundle)+`,
		"service":{"namespace":"default","name":"hook","path":"/"}},"rules":[{"operations":["CONNECT"],"apiGroups":[""],"apiVersions":["v1"],
		"resources":["pods/*"]}],"sideEffects":"None","admissionReviewVersions":["v1"]}]}`)
	connect("POST", "exec?command=ls", nil, 200, "asked for /exec/default/p/c command=ls&command=--safe")
	connect("POST", "portforward?ports=80", nil, 200, "asked for /portForward/default/p port=80")
	connect("POST", "attach", nil, 400, "denied the request")
	if code, answer := send("DELETE", registration+"mutatingwebhookconfigurations/adder", "", nil); code != http.StatusOK {
		t.Fatal(answer)
	}

	create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",
		"metadata":{"name":"reader"},"rules":[{"apiGroups":[""],"resources":["pods/exec"],"verbs":["get"]}]}`)
	create("/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding",
		"metadata":{"name":"reader"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"reader"},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"ann"}]}`)
	ann := map[string]string{"Impersonate-User": "ann"}
	harness.Eventually(t, "the authorizer knows the role of ann", func() bool {
		_, answer := send("GET", pods+"/p/exec?command=ls", "", ann)
		return !strings.Contains(answer, `cannot get resource \"pods/exec\"`)
	})
	connect("GET", "exec?command=ls", ann, 403, `cannot create resource \"pods/exec\"`)
	connect("POST", "exec?command=ls", ann, 403, `cannot create resource \"pods/exec\"`)
	connect("GET", "attach", ann, 403, `cannot get resource \"pods/attach\"`)
}
