package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestEvictionOverHTTP evicts as kubectl drain does, and in all the wrong ways.
func TestEvictionOverHTTP(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	js := map[string]string{"Content-Type": "application/json"}
	const pods = "/api/v1/namespaces/default/pods"
	s.CreatePod(admin)
	eviction := func(version string) string {
		return `{"apiVersion":"policy/` + version + `","kind":"Eviction","metadata":{"name":"p","namespace":"default"}}`
	}
	for _, tc := range []struct {
		name, method, path, body string
		code                     int
		message                  string
	}{
		{"an old version", "POST", pods + "/p/eviction", eviction("v1beta1"), 400, `Eviction in version "v1beta1" cannot be handled as a Eviction`},
		{"another kind", "POST", pods + "/p/eviction", harness.PodJSON, 400, "converting (v1.Pod) to (policy.Eviction): unknown conversion"},
		{"another pod", "POST", pods + "/q/eviction", eviction("v1"), 400, "name in URL does not match name in Eviction object"},
		{"another namespace", "POST", "/api/v1/namespaces/kube-system/pods/p/eviction", eviction("v1"), 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{"reading", "GET", pods + "/p/eviction", "", 405, "the server does not allow this method on the requested resource"},
		{"a wrong option", "POST", pods + "/p/eviction?dryRun=Some", eviction("v1"), 422, `dryRun: Unsupported value: ["Some"]: supported values: "All"`},
		{"a dry run", "POST", pods + "/p/eviction?dryRun=All", eviction("v1"), 201, ""},
		{"not a dry run", "POST", pods + "/p/eviction", eviction("v1"), 201, ""},
		{"again", "POST", pods + "/p/eviction", eviction("v1"), 404, `pods "p" not found`},
	} {
		res, body := s.Exchange(admin, tc.method, tc.path, tc.body, js)
		var status metav1.Status
		if err := json.Unmarshal([]byte(body), &status); err != nil {
			t.Fatalf("%s: %v: %s", tc.name, err, body)
		}
		if res.StatusCode != tc.code || int(status.Code) != tc.code || !strings.Contains(status.Message, tc.message) {
			t.Errorf("%s: %d %s", tc.name, res.StatusCode, body)
		}
	}
}

// TestBindingTrialOverHTTP tries a binding as a dry run, which the scheduler of another plane may
// do.
func TestBindingTrialOverHTTP(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	js := map[string]string{"Content-Type": "application/json"}
	const pods = "/api/v1/namespaces/default/pods"
	s.CreatePod(admin)
	binding := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n"}}`
	if res, body := s.Exchange(admin, "POST", pods+"/p/binding?dryRun=All", binding, js); res.StatusCode != 201 || !strings.Contains(body, `"status":"Success"`) {
		t.Errorf("a dry run: got %d %s", res.StatusCode, body)
	}
	if _, body := s.Exchange(admin, "GET", pods+"/p", "", nil); strings.Contains(body, "nodeName") {
		t.Errorf("after the dry run the pod is %s", body)
	}
}

// TestQuestionsAreNotStored reads a review as if it were an object.
func TestQuestionsAreNotStored(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	const reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
	for _, method := range []string{"GET", "DELETE", "PUT"} {
		if res, body := s.Exchange(admin, method, reviews, "", nil); res.StatusCode != 405 || res.Header.Get("Allow") != "POST" {
			t.Errorf("%s: %d %s", method, res.StatusCode, body)
		}
	}
	if res, body := s.Exchange(admin, "GET", reviews+"/x", "", nil); res.StatusCode != 404 {
		t.Errorf("by name: %d %s", res.StatusCode, body)
	}
	local := "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews"
	body := `{"apiVersion":"authorization.k8s.io/v1","kind":"LocalSubjectAccessReview","metadata":{"namespace":"other"},"spec":{"user":"ann","resourceAttributes":{"namespace":"other","verb":"get","resource":"pods"}}}`
	res, got := s.Exchange(admin, "POST", local, body, map[string]string{"Content-Type": "application/json"})
	if res.StatusCode != 400 || !strings.Contains(got, "the namespace of the provided object does not match the namespace sent on the request") {
		t.Errorf("of another namespace: %d %s", res.StatusCode, got)
	}
}
