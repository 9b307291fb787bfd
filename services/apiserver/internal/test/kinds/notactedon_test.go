package kinds_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestNotActedOn writes, by every kind of write, objects that nothing acts on.
func TestNotActedOn(t *testing.T) {
	s := harness.Start(t)
	write := func(method, path, contentType, body string) []string {
		t.Helper()
		res, answer := s.Exchange(s.Admin(), method, path, body, map[string]string{"Content-Type": contentType})
		if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
			t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, answer)
		}
		var ignored []string
		for _, warning := range res.Header.Values("Warning") {
			if scheme.IsIgnored(warning) {
				ignored = append(ignored, warning)
			}
		}
		return ignored
	}
	const policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
	const policy = `{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"name":"deny"},"spec":{"podSelector":{}}}`
	const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"volumes":[{"name":"v","emptyDir":{"sizeLimit":"1Mi"}}],"containers":[{"name":"c","image":"i"}]}}}}`
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	const told = `299 - "NetworkPolicy is accepted but not acted on: no traffic is refused by it"`
	const field = `299 - "spec.template.spec.volumes[0].emptyDir.sizeLimit is accepted but not acted on: `
	for _, tt := range []struct{ name, method, path, contentType, body, want string }{
		{"dry run", "POST", policies + "?dryRun=All", "application/json", policy, told},
		{"create", "POST", policies, "application/json", policy, told},
		{"update", "PUT", policies + "/deny", "application/json", policy, told},
		{"patch", "PATCH", policies + "/deny", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`, told},
		{"apply", "PATCH", policies + "/deny?fieldManager=me", "application/apply-patch+yaml", policy, told},
		{"a template", "POST", deployments, "application/json", deployment, field},
		{"a patch of something else", "PATCH", deployments + "/web", "application/merge-patch+json", `{"metadata":{"labels":{"a":"b"}}}`, field},
		{"without the field", "PATCH", deployments + "/web", "application/merge-patch+json", `{"spec":{"template":{"spec":{"volumes":null}}}}`, ""},
		{"scaling what is acted on", "PATCH", deployments + "/web/scale", "application/merge-patch+json", `{"spec":{"replicas":0}}`, ""},
		{"a stateful set", "POST", "/apis/apps/v1/namespaces/default/statefulsets", "application/json",
			strings.ReplaceAll(strings.Replace(deployment, "Deployment", "StatefulSet", 1), `"sizeLimit":"1Mi"`, ""), ""},
		{"its status", "PATCH", "/apis/apps/v1/namespaces/default/statefulsets/web/status", "application/merge-patch+json", `{"status":{"replicas":0}}`, ""},
		{"its scale", "PATCH", "/apis/apps/v1/namespaces/default/statefulsets/web/scale", "application/merge-patch+json", `{"spec":{"replicas":2}}`, ""},
		{"deleting it", "DELETE", policies + "/deny", "", "", ""},
	} {
		got := write(tt.method, tt.path, tt.contentType, tt.body)
		switch {
		case tt.want == "" && len(got) > 0:
			t.Errorf("%s: got warnings %q, want none", tt.name, got)
		case tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.want)):
			t.Errorf("%s: got warnings %q, want %q", tt.name, got, tt.want)
		}
	}
}
