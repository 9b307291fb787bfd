package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestBindings binds a pod with a binding that names it, at a path without the pod.
func TestBindings(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	js := map[string]string{"Content-Type": "application/json"}
	const bindings = "/api/v1/namespaces/default/bindings"
	binding := func(name string) string {
		return `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"` + name + `"},"target":{"kind":"Node","name":"node-1"}}`
	}
	if res, body := s.Exchange(admin, "POST", "/api/v1/namespaces/default/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`, js); res.StatusCode != 201 {
		t.Fatal(body)
	}
	if res, body := s.Exchange(admin, "POST", "/api/v1/namespaces/default/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, js); res.StatusCode != 201 {
		t.Fatal(body)
	}
	node := func() string {
		t.Helper()
		_, body := s.Exchange(admin, "GET", "/api/v1/namespaces/default/pods/web", "", nil)
		var pod corev1.Pod
		if err := json.Unmarshal([]byte(body), &pod); err != nil {
			t.Fatal(err)
		}
		return pod.Spec.NodeName
	}
	for _, tc := range []struct {
		name, path, body string
		code             int
		text, node       string
	}{
		{"dry run", bindings + "?dryRun=All", binding("web"), 201, `"status":"Success"`, ""},
		{"no pod", bindings, binding("none"), 404, `pods \"none\" not found`, ""},
		{"no name", bindings, binding(""), 400, "Name parameter required.", ""},
		{"no node", bindings, strings.Replace(binding("web"), "node-1", "", 1), 422, "target.name: Required value", ""},
		{"bound", bindings, binding("web"), 201, `"status":"Success"`, "node-1"},
		{"bound again", bindings, binding("web"), 409, `pod web is already assigned to node \"node-1\"`, "node-1"},
	} {
		res, body := s.Exchange(admin, "POST", tc.path, tc.body, js)
		if res.StatusCode != tc.code || !strings.Contains(body, tc.text) {
			t.Errorf("%s: got %d %s", tc.name, res.StatusCode, body)
		}
		if got := node(); got != tc.node {
			t.Errorf("%s: the pod is bound to %q", tc.name, got)
		}
	}
	if res, _ := s.Exchange(admin, "GET", bindings, "", nil); res.StatusCode != 405 {
		t.Errorf("GET: got %d, want 405", res.StatusCode)
	}
}
