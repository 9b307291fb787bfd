package webhooks_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/admission/admissiontest"
)

// TestWebhooksInFiles checks that webhooks of files are asked before those of the API, and alone about
// objects that configure admission.
func TestWebhooksInFiles(t *testing.T) {
	for _, mutating := range []bool{true, false} {
		t.Run(fmt.Sprintf("mutating=%v", mutating), func(t *testing.T) {
			w := newWorldWith(t, mutating, func(h *hooks) string {
				dir, kind := t.TempDir(), "ValidatingWebhookConfiguration"
				if mutating {
					kind = "MutatingWebhookConfiguration"
				}
				text := fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: %s
metadata: {name: z.static.k8s.io}
webhooks: [{name: static.example.com, clientConfig: {url: "%s/static", caBundle: %s}, sideEffects: None, admissionReviewVersions: [v1],
  rules: [{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}]}]`,
					kind, h.URL, base64.StdEncoding.EncodeToString(h.CABundle))
				if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return "{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, staticManifestsDir: " + dir + "}"
			})
			w.configure("a", w.everything("served.example.com"))
			ask := func(req *admission.Request, want ...string) {
				t.Helper()
				if _, err := w.admit(req); err != nil {
					t.Fatal(err)
				}
				got := w.calls()
				if !mutating {
					slices.Sort(got)
					slices.Sort(want)
				}
				if !slices.Equal(got, want) {
					t.Errorf("asked were %q, want %q", got, want)
				}
			}
			ask(&admission.Request{Object: admissiontest.Pod()}, "/static", "/served.example.com")
			c := &registrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
			ask(&admission.Request{Object: c}, "/static")
		})
	}
}
