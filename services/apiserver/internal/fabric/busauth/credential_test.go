package busauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"log/slog"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/subject"
	"github.com/garboard/garboard/libs/scheme"
	watchv1 "github.com/garboard/garboard/proto/watch/v1"
	"github.com/garboard/garboard/services/apiserver/internal/fabric/busauth"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz/node"
	"github.com/garboard/garboard/services/apiserver/internal/upkeep/bootstraproles"
)

// signed returns a certificate that an authority has signed; the authority itself if by is nil.
func signed(t *testing.T, name pkix.Name, end time.Time, by *x509.Certificate, key *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: name, NotBefore: time.Now().Add(-time.Hour), NotAfter: end,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if by == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
		by, key = template, own
	}
	data, err := x509.CreateCertificate(rand.Reader, template, by, &own.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(data)
	if err != nil {
		t.Fatal(err)
	}
	return cert, own
}

// accepting returns a decider that accepts the client certificates of an authority and a bootstrap token.
func accepting(t *testing.T, ca *x509.Certificate, token func() (*corev1.Secret, bool)) *busauth.Decider {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	authorities, err := authn.NewAuthorities(ca, "", quiet)
	if err != nil {
		t.Fatal(err)
	}
	tokens := authn.NewBootstrapTokens([]string{"api"}, func(string, string) (*corev1.Secret, bool) { return token() }, quiet)
	return busauth.New(busauth.Config{
		Authenticator: authn.New(authn.Config{
			ClientCAs: authorities, Tokens: []authn.Tokens{tokens}, Bootstrap: tokens, Audiences: []string{"api"},
		}),
		Authorizer: node.New(node.Config{Pods: noPods{}, Rules: bootstraproles.NodeRules()}), Roles: roles{}, Table: scheme.New(), Logger: quiet,
	})
}

// TestCertificates checks that a connection ends with the certificate, that the identity tells what the
// API needs to know of it, and that it is void once the authority is replaced.
func TestCertificates(t *testing.T) {
	ca, key := signed(t, pkix.Name{CommonName: "ca"}, time.Now().Add(time.Hour), nil, nil)
	next, _ := signed(t, pkix.Name{CommonName: "ca"}, time.Now().Add(time.Hour), nil, nil)
	leaf, _ := signed(t, pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}, time.Now().Add(2*time.Minute), ca, key)
	none := func() (*corev1.Secret, bool) { return nil, false }
	d := accepting(t, ca, none)
	grant, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Host: "10.0.0.1", Certificates: []*x509.Certificate{leaf}})
	if err != nil {
		t.Fatal(err)
	}
	if !grant.Expires.Equal(leaf.NotAfter) {
		t.Errorf("the connection ends at %v, the certificate at %v", grant.Expires, leaf.NotAfter)
	}
	client, err := busauth.Client(grant.Identity)
	if err != nil || client.User.Name != "system:node:n1" || !client.Certificate.Ends.Equal(leaf.NotAfter) ||
		!strings.HasPrefix(client.User.Extra[authn.ExtraCredentialID][0], "X509SHA256=") {
		t.Errorf("the identity reads as %+v (%v)", client, err)
	}
	if err := d.Revoked(t.Context(), grant.Identity); err != nil {
		t.Errorf("a valid certificate: %v", err)
	}
	replaced := accepting(t, next, none)
	if err := replaced.Revoked(t.Context(), grant.Identity); err == nil || !strings.Contains(err.Error(), "authority") {
		t.Errorf("the authority is replaced: got %v", err)
	}
	ask := &watchv1.Ask{Resource: "pods", Scope: "n1"}
	asker := subject.Client{Inbox: "me", Identity: grant.Identity}
	if err := d.Authorize(t.Context(), asker, ask); err != nil {
		t.Errorf("an ask for its own pods: %v", err)
	}
	if err := replaced.Authorize(t.Context(), asker, ask); err == nil {
		t.Error("an ask is answered after the authority was replaced")
	}
}

// TestTokenBesideACertificate: where NATS wants a certificate of every client, a token says who connects, and a wrong
// one is not made good by the certificate.
func TestTokenBesideACertificate(t *testing.T) {
	ca, key := signed(t, pkix.Name{CommonName: "ca"}, time.Now().Add(time.Hour), nil, nil)
	leaf, _ := signed(t, pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}, time.Now().Add(time.Hour), ca, key)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
		},
	}
	d := accepting(t, ca, func() (*corev1.Secret, bool) { return secret, true })
	shown := callout.Credentials{Inbox: "me", Token: "abcdef.0123456789abcdef", Certificates: []*x509.Certificate{leaf}}
	grant, err := d.Decide(t.Context(), shown)
	if err != nil {
		t.Fatal(err)
	}
	if client, err := busauth.Client(grant.Identity); err != nil || client.User.Name != "system:bootstrap:abcdef" {
		t.Errorf("the client is %+v (%v)", client, err)
	}
	shown.Token = "abcdef.fedcba9876543210"
	if grant, err := d.Decide(t.Context(), shown); err == nil {
		t.Errorf("a wrong token beside a certificate is granted %q", grant.Subscribe)
	}
}

// TestBootstrapTokensOnlyCall checks that a client with a bootstrap token may send requests to the API
// and nothing else, and only while the token exists.
func TestBootstrapTokensOnlyCall(t *testing.T) {
	exists := true
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-abcdef"}, Type: corev1.SecretTypeBootstrapToken,
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
			"auth-extra-groups": []byte("system:bootstrappers:x"),
		},
	}
	d := accepting(t, nil, func() (*corev1.Secret, bool) { return secret, exists })
	grant, err := d.Decide(t.Context(), callout.Credentials{Inbox: "me", Token: "abcdef.0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	own := subject.Client{Inbox: "me", Identity: grant.Identity}
	if !slices.Equal(grant.Subscribe, []string{"_INBOX.me.>"}) {
		t.Errorf("it may subscribe to %v", grant.Subscribe)
	}
	if !slices.Equal(grant.Publish, []string{own.API(), "gb.who.me", "_INBOX.*.from.me.>"}) {
		t.Errorf("it may publish to %v", grant.Publish)
	}
	client, err := busauth.Client(grant.Identity)
	if err != nil || !busauth.Bootstraps(client.User) {
		t.Errorf("the identity reads as %+v (%v)", client, err)
	}
	if err := d.Revoked(t.Context(), grant.Identity); err != nil {
		t.Errorf("a valid token: %v", err)
	}
	exists = false
	if err := d.Revoked(t.Context(), grant.Identity); err == nil {
		t.Error("a deleted token is still valid")
	}
}
