package webhook_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/garboard/garboard/services/apiserver/internal/http/webhook"
)

func writeKubeconfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte("apiVersion: v1\nkind: Config\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// seen is what a webhook learns of its caller.
type seen struct{ authorization, user, subject string }

// TestCredentials checks which user of a kubeconfig file a webhook gets, and what it sees of it.
func TestCredentials(t *testing.T) {
	var last seen
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = seen{authorization: r.Header.Get("Authorization"), user: r.Header.Get("Impersonate-User")}
		if len(r.TLS.PeerCertificates) > 0 {
			last.subject = r.TLS.PeerCertificates[0].Subject.String()
		}
		w.Header().Set("Content-Type", "application/json")
		review := admissionv1.AdmissionReview{Response: &admissionv1.AdmissionResponse{UID: "u"}}
		review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
		_ = json.NewEncoder(w).Encode(review)
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	key, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	encode := func(kind string, der []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	cert := fmt.Sprintf("{client-certificate-data: %s, client-key-data: %s}",
		encode("CERTIFICATE", server.Certificate().Raw), encode("PRIVATE KEY", key))
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("of a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(server.URL, "https://")
	_, port, _ := strings.Cut(host, ":")
	service := webhook.Target{Service: &webhook.Service{Namespace: "ns", Name: "hook"}}
	for name, tc := range map[string]struct {
		target webhook.Target
		config string
		want   seen
	}{
		"none":                 {webhook.Target{URL: server.URL}, "users: [{name: other, user: {token: a}}]", seen{}},
		"the host":             {webhook.Target{URL: server.URL + "/a"}, "users: [{name: '*', user: {token: b}}, {name: '" + host + "', user: {token: a}}]", seen{authorization: "Bearer a"}},
		"a wildcard":           {webhook.Target{URL: server.URL}, "users: [{name: '*.0.0.1:" + port + "', user: {token: a}}]", seen{authorization: "Bearer a"}},
		"everybody":            {webhook.Target{URL: server.URL}, "users: [{name: '*', user: {username: u, password: p}}]", seen{authorization: "Basic dTpw"}},
		"the current context":  {webhook.Target{URL: server.URL}, "current-context: c\ncontexts: [{name: c, context: {user: u}}]\nusers: [{name: u, user: {token: a, as: jane}}]", seen{authorization: "Bearer a", user: "jane"}},
		"a token in a file":    {webhook.Target{URL: server.URL}, "users: [{name: '*', user: {tokenFile: " + token + "}}]", seen{authorization: "Bearer of a file"}},
		"a certificate":        {webhook.Target{URL: server.URL}, "users: [{name: '*', user: " + cert + "}]", seen{subject: server.Certificate().Subject.String()}},
		"a Service":            {service, "users: [{name: 'hook.ns.svc:443', user: {token: a}}, {name: hook.ns.svc, user: {token: b}}]", seen{authorization: "Bearer a"}},
		"a Service, no port":   {service, "users: [{name: hook.ns.svc, user: {token: b}}, {name: '*', user: {token: c}}]", seen{authorization: "Bearer b"}},
		"the domain of others": {service, "users: [{name: '*.svc', user: {token: b}}, {name: '*.ns', user: {token: c}}]", seen{authorization: "Bearer b"}},
	} {
		t.Run(name, func(t *testing.T) {
			credentials, err := webhook.ReadCredentials(writeKubeconfig(t, tc.config))
			if err != nil {
				t.Fatal(err)
			}
			documents := runtime.NewScheme()
			if err := admissionv1.AddToScheme(documents); err != nil {
				t.Fatal(err)
			}
			clients := webhook.New(webhook.Config{
				Documents: documents, Versions: schema.GroupVersions{admissionv1.SchemeGroupVersion}, UserAgent: "tester", Credentials: credentials,
				Resolver: resolve(func(string, string, int32) (string, error) { return host, nil }),
				Proxy:    func(*http.Request) (*url.URL, error) { return nil, nil },
			})
			defer clients.Close()
			target := tc.target
			target.CABundle = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
			last = seen{}
			_, err = call(t.Context(), clients, target)
			if target.Service != nil { // The certificate is not for it, so only the choice is checked.
				if user := webhook.UserOf(credentials, "hook.ns.svc:443"); "Bearer "+user.Token != tc.want.authorization {
					t.Errorf("got the token %q, want %q", user.Token, tc.want.authorization)
				}
				return
			}
			if err != nil || last != tc.want {
				t.Errorf("the webhook saw %+v, %v, want %+v", last, err, tc.want)
			}
		})
	}
}

// TestFaultyCredentials checks the errors of kubeconfig files.
func TestFaultyCredentials(t *testing.T) {
	for text, want := range map[string]string{
		"users: 1": "reading the credentials of webhooks: ",
		"users: [{name: a, user: {exec: {command: x, apiVersion: client.authentication.k8s.io/v1}}}]": `the user "a" has exec, which is not supported`,
		"users: [{name: a, user: {auth-provider: {name: x}}}]":                                        `the user "a": auth provider not supported`,
	} {
		if _, err := webhook.ReadCredentials(writeKubeconfig(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
	if _, err := webhook.ReadCredentials("/not/there"); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no file: got %v", err)
	}
}
