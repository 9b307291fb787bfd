package authn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/tokenkey"
)

var robot = Bound{Namespace: "ns", ServiceAccount: Reference{Name: "robot", UID: "a1"}}

// TestTokenExtension: tokens that pods mount are valid for a year, with a note in the audit log
// once the requested lifetime is over.
func TestTokenExtension(t *testing.T) {
	key := newKey(t)
	mounted := robot
	mounted.Pod = &Reference{Name: "p", UID: "p1"}
	for name, c := range map[string]struct {
		bound     Bound
		life      time.Duration
		audiences []string
		off       bool
		extended  bool
	}{
		"as pods request":            {mounted, 3607 * time.Second, nil, false, true},
		"the API's audience by name": {mounted, 3607 * time.Second, []string{issuer}, false, true},
		"another audience":           {mounted, 3607 * time.Second, []string{issuer, "vault"}, false, false},
		"another lifetime":           {mounted, 3600 * time.Second, nil, false, false},
		"not bound to a pod":         {robot, 3607 * time.Second, nil, false, false},
		"switched off":               {mounted, 3607 * time.Second, nil, true, false},
	} {
		accounts := newAccounts(t, ServiceAccountsConfig{Keys: local(t, key), Objects: present(), NoExtension: c.off})
		issued, err := accounts.Issue(t.Context(), c.bound, c.audiences, c.life)
		if err != nil {
			t.Fatal(err)
		}
		if left := time.Until(issued.Expires); left > c.life || left < c.life-time.Minute {
			t.Errorf("%s: the token expires in %v", name, left)
		}
		if result, ok, err := accounts.Token(t.Context(), issued.Token, []string{issuer}); !ok || len(result.Annotations) != 0 {
			t.Errorf("%s, at once: got annotations %v, %v, want none", name, result.Annotations, err)
		}
		late := accounts.at(c.life + 10*time.Minute)
		result, ok, err := late.Token(t.Context(), issued.Token, []string{issuer})
		if ok != c.extended || c.extended && !strings.HasPrefix(result.Annotations[staleTokenKey], "subject: system:serviceaccount:ns:robot, seconds after warning threshold: 6") {
			t.Errorf("%s, late: got %v, annotations %v, %v", name, ok, result.Annotations, err)
		}
		if _, ok, _ := accounts.at(extendedLife+2*leeway).Token(t.Context(), issued.Token, []string{issuer}); ok {
			t.Errorf("%s: the token is valid for more than a year", name)
		}
	}
}

// TestKeysAndIssuers: tokens signed by a replaced key, or of a replaced issuer, are accepted if key
// and issuer are still configured, and no others are.
func TestKeysAndIssuers(t *testing.T) {
	old, now := newKey(t), newKey(t)
	oldKey, err := tokenkey.NewPublic(old.Public())
	if err != nil {
		t.Fatal(err)
	}
	before := newAccounts(t, ServiceAccountsConfig{Issuers: []string{"https://old"}, Keys: local(t, old)})
	issued, err := before.Issue(t.Context(), robot, []string{"api"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg     ServiceAccountsConfig
		further []tokenkey.Public
		ok      bool
	}{
		"both known":     {ServiceAccountsConfig{Issuers: []string{issuer, "https://old"}}, []tokenkey.Public{oldKey}, true},
		"unknown issuer": {ServiceAccountsConfig{Issuers: []string{issuer}}, []tokenkey.Public{oldKey}, false},
		"unknown key":    {ServiceAccountsConfig{Issuers: []string{issuer, "https://old"}}, nil, false},
	} {
		c.cfg.Keys, c.cfg.Objects, c.cfg.Audiences = local(t, now, c.further...), present(), []string{"api"}
		if _, ok, err := newAccounts(t, c.cfg).Token(t.Context(), issued.Token, []string{"api"}); ok != c.ok {
			t.Errorf("%s: got %v, %v, want %v", name, ok, err, c.ok)
		}
	}
}

// TestForeignSigners: keys of the other types that Kubernetes accepts work, and tokens without an
// audience are for the API.
func TestForeignSigners(t *testing.T) {
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p224, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tokenkey.NewPublic(p224.Public()); err == nil {
		t.Error("a key on an unsupported curve is accepted")
	}
	var file []byte
	for kind, marshal := range map[string]func() ([]byte, error){
		"PUBLIC KEY":     func() ([]byte, error) { return x509.MarshalPKIXPublicKey(rsaKey.Public()) },
		"EC PRIVATE KEY": func() ([]byte, error) { return x509.MarshalECPrivateKey(p384) },
	} {
		der, err := marshal()
		if err != nil {
			t.Fatal(err)
		}
		file = append(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})...)
	}
	keys, err := ParsePublicKeys(file)
	if err != nil || len(keys) != 2 {
		t.Fatal(keys, err)
	}
	accounts := newAccounts(t, ServiceAccountsConfig{Keys: local(t, newKey(t), keys...), Objects: present()})
	for algorithm, key := range map[jose.SignatureAlgorithm]any{jose.RS256: rsaKey, jose.ES384: p384} {
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, nil)
		if err != nil {
			t.Fatal(err)
		}
		token, err := jwt.Signed(signer).Claims(claims{Claims: jwt.Claims{
			Issuer: issuer, Subject: "system:serviceaccount:ns:robot", Expiry: jwt.NewNumericDate(time.Now().Add(time.Hour)),
		}, Kubernetes: robot}).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		if result, ok, err := accounts.Token(t.Context(), token, []string{issuer}); !ok || result.User.Name != "system:serviceaccount:ns:robot" {
			t.Errorf("%s: got %+v, %v", algorithm, result, err)
		}
		if _, ok, _ := accounts.Token(t.Context(), token, []string{"vault"}); ok {
			t.Errorf("%s: the token is valid for another audience than the API", algorithm)
		}
	}
	for _, text := range []string{"", "x", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "-----BEGIN THING-----\nAAAA\n-----END THING-----\n"} {
		if keys, err := ParsePublicKeys([]byte(text)); err == nil {
			t.Errorf("%q parses to %v, want an error", text, keys)
		}
	}
}

// TestRevocationIsAtOnce: caching a token's signature does not keep a revoked token valid.
func TestRevocationIsAtOnce(t *testing.T) {
	o := present()
	accounts := newAccounts(t, ServiceAccountsConfig{Keys: local(t, newKey(t)), Objects: o})
	issued, err := accounts.Issue(t.Context(), robot, nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	check := func(want bool) {
		t.Helper()
		if _, ok, err := accounts.Token(t.Context(), issued.Token, []string{issuer}); ok != want {
			t.Errorf("got %v, %v, want %v", ok, err, want)
		}
	}
	check(true)
	o["account/robot"] = &corev1.ServiceAccount{ObjectMeta: meta("robot", "a2")}
	check(false)
	o["account/robot"] = &corev1.ServiceAccount{ObjectMeta: meta("robot", "a1")}
	check(true)
	delete(o, "account/robot")
	check(false)
}

func TestSignaturesAreBounded(t *testing.T) {
	s := newSignatures()
	for i := range 3 * maxSignatures {
		s.keep(fmt.Sprint(i), &claims{}, 0)
	}
	if n := len(s.younger) + len(s.older); n > 2*maxSignatures {
		t.Errorf("%d signatures are cached, want at most %d", n, 2*maxSignatures)
	}
	last := fmt.Sprint(3*maxSignatures - 1)
	if s.find(last, 0) == nil || s.find("0", 0) != nil {
		t.Error("the newest signature is not cached, or the oldest one still is")
	}
	if s.find(fmt.Sprint(2*maxSignatures-1), 0) == nil || len(s.younger) == 0 {
		t.Error("a signature that is still in use was dropped")
	}
}

// TestSignaturesEndWithTheirKeys checks that nothing that a withdrawn key verified is remembered, also if
// that was just done.
func TestSignaturesEndWithTheirKeys(t *testing.T) {
	s := newSignatures()
	s.keep("a", &claims{}, 1)
	if s.find("a", 1) == nil {
		t.Error("a signature is not cached")
	}
	if s.find("a", 2) != nil {
		t.Error("a signature is cached after the keys changed")
	}
	s.keep("a", &claims{}, 1)
	if s.find("a", 2) != nil {
		t.Error("what keys of before verified is cached")
	}
}

// anything returns every object that a token may be bound to.
type anything struct{}

func (anything) ServiceAccount(_ context.Context, _, name string) (*corev1.ServiceAccount, error) {
	return &corev1.ServiceAccount{ObjectMeta: meta(name, "")}, nil
}

func (anything) Pod(_ context.Context, _, name string) (*corev1.Pod, error) {
	return &corev1.Pod{ObjectMeta: meta(name, "")}, nil
}

func (anything) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	return &corev1.Secret{ObjectMeta: meta(name, "")}, nil
}

func (anything) Node(_ context.Context, name string) (*corev1.Node, error) {
	return &corev1.Node{ObjectMeta: meta(name, "")}, nil
}

// FuzzServiceAccountToken: no token that this plane has not signed is accepted, and malformed ones
// don't crash.
func FuzzServiceAccountToken(f *testing.F) {
	accounts := newAccounts(f, ServiceAccountsConfig{Keys: local(f, newKey(f)), Objects: anything{}})
	issued, err := newAccounts(f, ServiceAccountsConfig{Keys: local(f, newKey(f))}).Issue(f.Context(), robot, nil, time.Hour)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(issued.Token)
	f.Add("eyJhbGciOiJub25lIn0.eyJpc3MiOiJodHRwczovL2lzc3VlciJ9.")
	f.Add("..")
	f.Fuzz(func(t *testing.T, token string) {
		if result, ok, _ := accounts.Token(t.Context(), token, []string{issuer}); ok {
			t.Errorf("%q is accepted as a token of %+v", token, result)
		}
	})
}

// FuzzBearer: whatever the headers hold, a token contains no space, and an ignored one is not
// returned.
func FuzzBearer(f *testing.F) {
	f.Add("Bearer x", "a, base64url.bearer.authorization.k8s.io.eA")
	f.Add("bearer  x", "base64url.bearer.authorization.k8s.io.!")
	f.Fuzz(func(t *testing.T, header, protocols string) {
		token, spaced := bearer(map[string][]string{"Authorization": {header}})
		if strings.Contains(token, " ") || spaced && token != "" {
			t.Errorf("header %q: got token %q, spaced %v", header, token, spaced)
		}
		token, rest, err := protocolToken([]string{protocols})
		if err == nil && token != "" && len(rest) == 0 || slices.ContainsFunc(rest, func(p string) bool { return strings.HasPrefix(p, tokenProtocol) }) {
			t.Errorf("subprotocols %q: got token %q and the rest %q", protocols, token, rest)
		}
	})
}
