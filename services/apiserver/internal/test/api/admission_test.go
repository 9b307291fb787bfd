package api_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/test/harness"
)

// TestAdmission sends requests that plugins warn about or refuse, and checks what the client gets.
func TestAdmission(t *testing.T) {
	t.Parallel()
	s := harness.Start(t)
	admin := s.Admin()
	js := map[string]string{"Content-Type": "application/json"}
	merge := map[string]string{"Content-Type": "application/merge-patch+json"}
	send := func(method, path, body string, header map[string]string, code int) ([]string, metav1.Status) {
		t.Helper()
		res, answer := s.Exchange(admin, method, path, body, header)
		if res.StatusCode != code {
			t.Fatalf("%s %s: got %d %s", method, path, res.StatusCode, answer)
		}
		var status metav1.Status
		if code >= 400 {
			if err := json.Unmarshal([]byte(answer), &status); err != nil {
				t.Fatal(err)
			}
		}
		return res.Header.Values("Warning"), status
	}
	send("POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"safe","labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`, js, 201)
	send("POST", "/api/v1/namespaces/safe/serviceaccounts", `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default"}}`, js, 201)
	const spec = `{"containers":[{"name":"c","image":"i","securityContext":{"privileged":true}}]}`
	const violation = `violate%s PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)`

	warnings, _ := send("POST", "/apis/apps/v1/namespaces/safe/deployments", `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":`+spec+`}}}`, js, 201)
	want := `299 - "would ` + strings.ReplaceAll(strings.Replace(violation, "%s", "", 1), `"`, `\"`) + `"`
	if !slices.Equal(warnings, []string{want}) {
		t.Errorf("got warnings %q\nwant         %q", warnings, want)
	}
	_, status := send("POST", "/api/v1/namespaces/safe/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":`+spec+`}`, js, 403)
	if want := `pods "p" is forbidden: ` + strings.Replace(violation, "%s", "s", 1); status.Message != want || status.Reason != metav1.StatusReasonForbidden {
		t.Errorf("got  %s\nwant %s", status.Message, want)
	}
	send("POST", "/api/v1/namespaces/safe/pods", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"hostNetwork":false,"containers":[{"name":"c","image":"i"}]}}`, js, 201)
	warnings, _ = send("PATCH", "/api/v1/namespaces/safe", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`, merge, 200)
	if len(warnings) != 2 || !strings.Contains(warnings[0], `existing pods in namespace \"safe\" violate the new PodSecurity enforce level \"restricted:latest\"`) || !strings.Contains(warnings[1], "p: allowPrivilegeEscalation != false") {
		t.Errorf("got warnings %q", warnings)
	}
	_, status = send("PATCH", "/api/v1/namespaces/safe", `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"none"}}}`, merge, 422)
	if !strings.Contains(status.Message, "must be one of privileged, baseline, restricted") {
		t.Errorf("got %s", status.Message)
	}
	_, status = send("DELETE", "/api/v1/namespaces/default", "", nil, 403)
	if status.Message != `namespaces "default" is forbidden: this namespace may not be deleted` {
		t.Errorf("got %s", status.Message)
	}
}
