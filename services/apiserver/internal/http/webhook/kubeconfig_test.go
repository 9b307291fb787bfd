package webhook_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
)

// TestFromKubeconfig calls the webhook that a kubeconfig file names.
func TestFromKubeconfig(t *testing.T) {
	var last *http.Request
	s := webhooktest.Start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = r.Clone(r.Context())
		echo(w, r)
	}), "hook.example.com")
	const current = "current-context: c\ncontexts: [{name: c, context: {cluster: here, user: us}}, {name: d, context: {cluster: there, user: them}}]\n" +
		"users: [{name: us, user: {token: a}}, {name: them, user: {token: b}}]\n"
	cluster := func(fields string, args ...any) string {
		return current + fmt.Sprintf("clusters: [{name: there, cluster: {server: 'https://127.0.0.1:1'}}, {name: here, cluster: {"+fields+"}}]", args...)
	}
	bundle := base64.StdEncoding.EncodeToString(s.CABundle)
	for _, tc := range []struct{ name, config, path, fault string }{
		{"the current context", cluster("server: %s, certificate-authority-data: %s", s.URL, bundle), "/", ""},
		{"a path", cluster("server: %s/a/b, certificate-authority-data: %s", s.URL, bundle), "/a/b", ""},
		{"another name", cluster("server: %s, certificate-authority-data: %s, tls-server-name: hook.example.com", s.URL, bundle), "/", ""},
		{"any certificate", cluster("server: %s, insecure-skip-tls-verify: true", s.URL), "/", ""},
		{"the wrong name", cluster("server: %s, certificate-authority-data: %s, tls-server-name: other.example.com", s.URL, bundle), "", "certificate is valid for hook.example.com, not other.example.com"},
		{"an unknown authority", cluster("server: %s", s.URL), "", "certificate signed by unknown authority"},
		{"nothing listens", cluster("server: 'https://127.0.0.1:1', certificate-authority-data: %s", bundle), "", "connection refused"},
		{"through a proxy", cluster("server: 'https://hook.example.com', proxy-url: 'http://127.0.0.1:1'"), "", "proxyconnect tcp: dial tcp 127.0.0.1:1: connect: connection refused"},
		{"no server", cluster("certificate-authority-data: %s", bundle), "", "no server found for cluster"},
		{"no authority", cluster("server: 'https://h', certificate-authority: /not/there"), "", "/not/there"},
		{"a command", strings.Replace(cluster("server: %s", s.URL), "token: b", "exec: {command: x, apiVersion: client.authentication.k8s.io/v1}", 1), "", `the user "them" has exec, which is not supported`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			documents := runtime.NewScheme()
			if err := admissionv1.AddToScheme(documents); err != nil {
				t.Fatal(err)
			}
			client, err := webhook.FromKubeconfig(writeKubeconfig(t, tc.config), webhook.Config{
				Documents: documents, Versions: schema.GroupVersions{admissionv1.SchemeGroupVersion}, UserAgent: "tester",
				Proxy: func(*http.Request) (*url.URL, error) { return nil, nil },
			})
			if err == nil {
				defer client.Close()
				answer := &admissionv1.AdmissionReview{}
				err = client.Call(t.Context(), &admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "u"}}, answer)
			}
			if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
				t.Fatalf("got %v, want %q", err, tc.fault)
			}
			if err == nil && (last.URL.Path != tc.path || last.Header.Get("Authorization") != "Bearer a" || last.UserAgent() != "tester") {
				t.Errorf("the webhook saw %s, %v", last.URL, last.Header)
			}
		})
	}
}
