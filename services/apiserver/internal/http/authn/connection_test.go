package authn

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
)

// carried returns a request over a connection, with a bearer token unless that is empty.
func carried(t *testing.T, c Connection, token string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(WithConnection(t.Context(), c), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// TestConnection checks whose request it is that a connection carries: that of the client whose
// certificate was verified, as long as it and its authority are accepted, unless the request has a
// credential of its own.
func TestConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		own, _ := issue(t, "own", began, began.Add(9*time.Hour), nil, nil)
		ca, key := issue(t, "further", began, began.Add(9*time.Hour), nil, nil)
		leaf, _ := issue(t, "system:node:n", began, began.Add(time.Hour), ca, key)
		path := filepath.Join(t.TempDir(), "cas")
		accept := func(certs ...*x509.Certificate) {
			t.Helper()
			var text []byte
			for _, cert := range certs {
				text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
			}
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour / 6) // until the file is read again
		}
		accept(ca)
		authorities, err := NewAuthorities(own, path, quiet())
		if err != nil {
			t.Fatal(err)
		}
		a := New(Config{ClientCAs: authorities})
		r := carried(t, Connection{}, "")
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}
		verified, ok, err := a.Authenticate(r)
		if err != nil || !ok || verified.Certificate.Authority == "" || !verified.Certificate.Ends.Equal(leaf.NotAfter) {
			t.Fatalf("got %+v, %v, %v", verified, ok, err)
		}
		node := Connection{User: verified.User, Certificate: verified.Certificate}
		expect := func(what string, r *http.Request, name, fault string) {
			t.Helper()
			got, ok, err := a.Authenticate(r)
			if ok != (name != "") || got.User.Name != name || (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
				t.Errorf("%s: got %q, %v, %v", what, got.User.Name, ok, err)
			}
		}
		expect("its certificate", carried(t, node, ""), "system:node:n", "")
		expect("a bad token", carried(t, node, "x"), "", "invalid bearer token")
		expect("no certificate", carried(t, Connection{User: node.User}, ""), Anonymous, "")
		forged := node
		forged.Certificate.Authority = authorityOf(leaf)
		expect("another authority", carried(t, forged, ""), "", "not accepted")

		accept(own)
		expect("its authority is gone", carried(t, node, ""), "", "not accepted")
		accept(ca)
		expect("its authority is back", carried(t, node, ""), "system:node:n", "")
		time.Sleep(time.Hour)
		expect("it has expired", carried(t, node, ""), "", "expired")
	})
}

// TestRevokedBootstrapToken checks that a client that was let in by a bootstrap token may stay only
// while the token is valid.
func TestRevokedBootstrapToken(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			bootstrapapi.BootstrapTokenIDKey: []byte("abcdef"), bootstrapapi.BootstrapTokenSecretKey: []byte("0123456789abcdef"),
			bootstrapapi.BootstrapTokenUsageAuthentication: []byte("true"),
			bootstrapapi.BootstrapTokenExpirationKey:       []byte(time.Now().Add(time.Hour).Format(time.RFC3339)),
		},
	}
	found := true
	tokens := NewBootstrapTokens([]string{issuer}, func(string, string) (*corev1.Secret, bool) { return secret, found }, quiet())
	a := New(Config{Tokens: []Tokens{tokens}, Bootstrap: tokens, Audiences: []string{issuer}})
	result, ok, err := a.Token(t.Context(), "abcdef.0123456789abcdef", []string{issuer})
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	joining := Connection{User: result.User}
	if err := a.Revoked(joining); err != nil {
		t.Error(err)
	}
	if err := a.Revoked(Connection{User: User{Name: "jane"}}); err != nil {
		t.Error(err)
	}
	secret.Data[bootstrapapi.BootstrapTokenExpirationKey] = []byte(time.Now().Add(-time.Second).Format(time.RFC3339))
	if err := a.Revoked(joining); err == nil || !strings.Contains(err.Error(), "expired") {
		t.Errorf("expired: got %v", err)
	}
	found = false
	if err := a.Revoked(joining); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("deleted: got %v", err)
	}
}
