package authn

import (
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"math/big"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// authority signs the client certificates of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	now := time.Now()
	cert, key := issue(t, "ca", now.Add(-time.Hour), now.Add(time.Hour), nil, nil)
	return authority{cert, key}
}

// client returns a client certificate for alice in the group dev, modified by change.
func (a authority) client(t *testing.T, change func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Minute),
		Subject:     pkix.Name{CommonName: "alice", Organization: []string{"dev"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if change != nil {
		change(template)
	}
	key := newKey(t)
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// withUID adds UIDs to a certificate's subject.
func withUID(uids ...string) func(*x509.Certificate) {
	return func(cert *x509.Certificate) {
		for _, uid := range uids {
			cert.Subject.ExtraNames = append(cert.Subject.ExtraNames, pkix.AttributeTypeAndValue{
				Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: uid,
			})
		}
	}
}

// bootstrapToken returns the Secret of the token abcdef.0123456789abcdef, modified by change.
func bootstrapToken(change func(*corev1.Secret)) *corev1.Secret {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
		Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("0123456789abcdef"), "usage-bootstrap-authentication": []byte("true"),
		},
	}
	if change != nil {
		change(secret)
	}
	return secret
}

func data(key, value string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Data[key] = []byte(value) }
}

// attempt is a request of a client, with its surroundings.
type attempt struct {
	cert    *x509.Certificate
	header  string   // Authorization
	protos  []string // Sec-WebSocket-Protocol, of a WebSocket
	path    string
	secret  *corev1.Secret
	anon    AnonymousRule
	objects objects
	after   time.Duration
}

// TestAuthentication checks the chain of authenticators: which user a client's credentials yield.
func TestAuthentication(t *testing.T) {
	ca, other, key := newAuthority(t), newAuthority(t), newKey(t)
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, tokens, "filetoken,bob,b1,\"ops,night\"\nanontoken,system:anonymous,,\nknown,carol,c1,system:authenticated\n")
	robot := Bound{Namespace: "ns", ServiceAccount: Reference{Name: "robot", UID: "a1"}}
	bound := func(change func(*Bound)) Bound {
		b := robot
		change(&b)
		return b
	}
	signed := func(key *ecdsa.PrivateKey, iss string, bound Bound, life time.Duration, audiences ...string) string {
		t.Helper()
		issued, err := newAccounts(t, ServiceAccountsConfig{Issuers: []string{iss}, Keys: local(t, key)}).Issue(t.Context(), bound, audiences, life)
		if err != nil {
			t.Fatal(err)
		}
		return issued.Token
	}
	jwt := func(bound Bound, audiences ...string) string {
		return signed(key, issuer, bound, time.Hour, audiences...)
	}
	bearer := func(token string) attempt { return attempt{header: "Bearer " + token} }
	socket := func(token string, others ...string) attempt {
		return attempt{protos: append([]string{tokenProtocol + base64.RawURLEncoding.EncodeToString([]byte(token))}, others...)}
	}
	deleted := func(ago time.Duration, kind string) objects {
		o := present()
		at := metav1.NewTime(time.Now().Add(-ago))
		o[kind].SetDeletionTimestamp(&at)
		return o
	}
	without := func(kind string) objects {
		o := present()
		delete(o, kind)
		return o
	}
	onPod := bound(func(b *Bound) {
		b.Pod, b.Node = &Reference{Name: "p", UID: "p1"}, &Reference{Name: "n", UID: "n9"}
	})
	onSecret := bound(func(b *Bound) { b.Secret = &Reference{Name: "s", UID: "s1"} })
	onNode := bound(func(b *Bound) { b.Node = &Reference{Name: "n", UID: "n1"} })
	with := func(a attempt, change func(*attempt)) attempt {
		change(&a)
		return a
	}
	const wrong = "abcdef.fedcba9876543210"
	const good = "abcdef.0123456789abcdef"
	boot := func(token string, change func(*corev1.Secret)) attempt {
		return attempt{header: "Bearer " + token, secret: bootstrapToken(change)}
	}

	for name, c := range map[string]struct {
		attempt
		// user is "name/uid groups..."; empty if the request is refused. The error then contains
		// failure, or is nil if failure is "none".
		user, failure string
	}{
		// Certificates.
		"a certificate's common name and organizations": {attempt{cert: ca.client(t, nil)}, "alice/ dev system:authenticated", ""},
		"a certificate's UID":                           {attempt{cert: ca.client(t, withUID("u1"))}, "alice/u1 dev system:authenticated", ""},
		"two UIDs":                                      {attempt{cert: ca.client(t, withUID("u1", "u2"))}, "", "expected 1 UID, but found multiple: [u1 u2]"},
		"an empty UID":                                  {attempt{cert: ca.client(t, withUID(""))}, "", "UID cannot be an empty string"},
		"a certificate of another authority":            {attempt{cert: other.client(t, nil)}, "", "failed: x509: certificate signed by unknown authority"},
		"an expired certificate":                        {attempt{cert: ca.client(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) })}, "", "certificate has expired or is not yet valid"},
		"a certificate that is not valid yet":           {attempt{cert: ca.client(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })}, "", "certificate has expired or is not yet valid"},
		"a server certificate":                          {attempt{cert: ca.client(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })}, "", "incompatible key usage"},
		"a certificate without a common name":           {attempt{cert: ca.client(t, func(c *x509.Certificate) { c.Subject.CommonName = "" })}, "system:anonymous/ system:unauthenticated", ""},
		"an invalid certificate and a valid token":      {attempt{cert: other.client(t, nil), header: "Bearer filetoken"}, "bob/b1 ops night system:authenticated", ""},
		"a valid certificate and an invalid token":      {attempt{cert: ca.client(t, nil), header: "Bearer nonsense"}, "alice/ dev system:authenticated", ""},
		"both invalid":                                  {attempt{cert: other.client(t, nil), header: "Bearer nonsense"}, "", "invalid bearer token]"},
		"a certificate and a token":                     {attempt{cert: ca.client(t, nil), header: "Bearer filetoken"}, "alice/ dev system:authenticated", ""},
		// The Authorization header.
		"no credential":               {attempt{}, "system:anonymous/ system:unauthenticated", ""},
		"another scheme":              {attempt{header: "Basic YTpi"}, "system:anonymous/ system:unauthenticated", ""},
		"a scheme without a token":    {attempt{header: "Bearer "}, "system:anonymous/ system:unauthenticated", ""},
		"two spaces before the token": {attempt{header: "Bearer  filetoken"}, "system:anonymous/ system:unauthenticated", ""},
		"the scheme in lower case":    {attempt{header: "bearer filetoken"}, "bob/b1 ops night system:authenticated", ""},
		"text after the token":        {attempt{header: "Bearer filetoken x"}, "bob/b1 ops night system:authenticated", ""},
		"an unknown token":            {bearer("nonsense"), "", "invalid bearer token"},
		// Anonymous requests.
		"anonymous, switched off":       {attempt{anon: AnonymousRule{Off: true}}, "", "none"},
		"anonymous, on an allowed path": {attempt{path: "/livez", anon: AnonymousRule{Paths: []string{"/livez"}}}, "system:anonymous/ system:unauthenticated", ""},
		"anonymous, on another path":    {attempt{path: "/api", anon: AnonymousRule{Paths: []string{"/livez"}}}, "", "none"},
		// The token file.
		"a token from the file":            {bearer("filetoken"), "bob/b1 ops night system:authenticated", ""},
		"the anonymous user's token":       {bearer("anontoken"), "system:anonymous/", ""},
		"a token of an authenticated user": {bearer("known"), "carol/c1 system:authenticated", ""},
		// Bootstrap tokens.
		"a bootstrap token":                            {boot(good, nil), "system:bootstrap:abcdef/ system:bootstrappers system:authenticated", ""},
		"a bootstrap token's extra groups":             {boot(good, data("auth-extra-groups", "system:bootstrappers:z,system:bootstrappers:a")), "system:bootstrap:abcdef/ system:bootstrappers system:bootstrappers:a system:bootstrappers:z system:authenticated", ""},
		"forbidden extra groups":                       {boot(good, data("auth-extra-groups", "system:masters")), "", "invalid bearer token"},
		"a malformed extra group":                      {boot(good, data("auth-extra-groups", "system:bootstrappers:a-")), "", "invalid bearer token"},
		"a bootstrap token with a wrong secret":        {boot(wrong, nil), "", "invalid bearer token"},
		"a bootstrap Secret of another type":           {boot(good, func(s *corev1.Secret) { s.Type = "Opaque" }), "", "invalid bearer token"},
		"a bootstrap Secret with another ID":           {boot(good, data("token-id", "fedcba")), "", "invalid bearer token"},
		"a bootstrap token not for authentication":     {boot(good, data("usage-bootstrap-authentication", "yes")), "", "invalid bearer token"},
		"an expired bootstrap token":                   {boot(good, data("expiration", "2020-01-01T00:00:00Z")), "", "invalid bearer token"},
		"a bootstrap token that will expire":           {boot(good, data("expiration", "2999-01-01T00:00:00Z")), "system:bootstrap:abcdef/ system:bootstrappers system:authenticated", ""},
		"a bootstrap token with an invalid expiration": {boot(good, data("expiration", "tomorrow")), "", "invalid bearer token"},
		"a bootstrap token being deleted":              {boot(good, func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} }), "", "invalid bearer token"},
		"a bootstrap token with capitals":              {boot(strings.ToUpper(good), nil), "", "invalid bearer token"},
		"a bootstrap token without a Secret":           {bearer(good), "", "invalid bearer token"},
		// Service account tokens.
		"a service account token":                  {bearer(jwt(robot)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"a token bound to a pod":                   {bearer(jwt(onPod)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"a token bound to a secret":                {bearer(jwt(onSecret)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"a token bound to a node":                  {bearer(jwt(onNode)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"service account gone":                     {with(bearer(jwt(robot)), func(a *attempt) { a.objects = without("account/robot") }), "", `"account/robot" not found`},
		"service account replaced":                 {bearer(jwt(bound(func(b *Bound) { b.ServiceAccount.UID = "a2" }))), "", "service account UID (a1) does not match claim (a2)"},
		"service account being deleted for long":   {with(bearer(jwt(robot)), func(a *attempt) { a.objects = deleted(2*time.Minute, "account/robot") }), "", "service account ns/robot has been deleted"},
		"service account being deleted just now":   {with(bearer(jwt(robot)), func(a *attempt) { a.objects = deleted(time.Second, "account/robot") }), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"pod gone":                                 {with(bearer(jwt(onPod)), func(a *attempt) { a.objects = without("pod/p") }), "", "service account token has been invalidated"},
		"pod replaced":                             {bearer(jwt(bound(func(b *Bound) { b.Pod = &Reference{Name: "p", UID: "p2"} }))), "", "pod UID (p1) does not match service account pod ref claim (p2)"},
		"pod being deleted for long":               {with(bearer(jwt(onPod)), func(a *attempt) { a.objects = deleted(2*time.Minute, "pod/p") }), "", "service account token has been invalidated"},
		"the pod's node gone":                      {with(bearer(jwt(onPod)), func(a *attempt) { a.objects = without("node/n") }), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"secret gone":                              {with(bearer(jwt(onSecret)), func(a *attempt) { a.objects = without("secret/s") }), "", "service account token has been invalidated"},
		"secret replaced":                          {bearer(jwt(bound(func(b *Bound) { b.Secret = &Reference{Name: "s", UID: "s2"} }))), "", "secret UID (s1) does not match service account secret ref claim (s2)"},
		"node gone":                                {with(bearer(jwt(onNode)), func(a *attempt) { a.objects = without("node/n") }), "", "service account token has been invalidated"},
		"node replaced":                            {bearer(jwt(bound(func(b *Bound) { b.Node = &Reference{Name: "n", UID: "n2"} }))), "", "node UID (n1) does not match service account node ref claim (n2)"},
		"an expired token":                         {with(bearer(jwt(robot)), func(a *attempt) { a.after = time.Hour + 2*leeway }), "", "service account token has expired"},
		"a token that is not valid yet":            {with(bearer(jwt(robot)), func(a *attempt) { a.after = -2 * leeway }), "", "service account token is not valid yet"},
		"a token for other audiences":              {bearer(jwt(robot, "vault", "x")), "", `token audiences ["vault" "x"] is invalid for the target audiences ["https://issuer"]`},
		"a token for another audience and the API": {bearer(jwt(robot, "vault", issuer)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"a token signed by another key":            {bearer(signed(newKey(t), issuer, robot, time.Hour)), "", "invalid signature, no keys found"},
		"a token with a changed signature":         {bearer(jwt(robot)[:len(jwt(robot))-8] + "AAAAAAAA"), "", "go-jose"},
		"a token of another issuer":                {bearer(signed(key, "https://other", robot, time.Hour)), "", "invalid bearer token"},
		"an unsigned token":                        {bearer("eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://issuer"}`)) + "."), "", "invalid bearer token"},
		"a token that is not a JWT":                {bearer("a.b.c"), "", "invalid bearer token"},
		// Tokens in a WebSocket's subprotocols.
		"a token as a subprotocol":          {socket("filetoken", "v5.channel.k8s.io"), "bob/b1 ops night system:authenticated", ""},
		"no other subprotocol":              {socket("filetoken"), "", "missing additional subprotocol"},
		"two tokens":                        {socket("filetoken", tokenProtocol+"eA", "x"), "", "multiple base64.bearer.authorization tokens specified"},
		"a token that is not base64":        {attempt{protos: []string{tokenProtocol + "!", "x"}}, "", "invalid base64.bearer.authorization token encoding"},
		"a token that is not UTF-8":         {socket("\xff\xfe", "x"), "", "invalid base64.bearer.authorization token"},
		"an unknown token as a subprotocol": {socket("nonsense", "x"), "", "invalid bearer token"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.objects == nil {
				c.objects = present()
			}
			audiences := []string{issuer}
			authorities, err := NewAuthorities(ca.cert, "", quiet())
			if err != nil {
				t.Fatal(err)
			}
			file, err := NewTokenFile(tokens, audiences, quiet())
			if err != nil {
				t.Fatal(err)
			}
			accounts := newAccounts(t, ServiceAccountsConfig{Keys: local(t, key), Objects: c.objects}).at(c.after)
			boots := NewBootstrapTokens(audiences, func(namespace, name string) (*corev1.Secret, bool) {
				ok := c.secret != nil && c.secret.Namespace == namespace && c.secret.Name == name
				return c.secret, ok
			}, quiet())
			a := New(Config{
				ClientCAs: authorities, Tokens: []Tokens{file, accounts, boots}, Audiences: audiences, Anonymous: c.anon,
			})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://x"+c.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.cert != nil {
				r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c.cert}}
			}
			if c.header != "" {
				r.Header.Set("Authorization", c.header)
			}
			if c.protos != nil {
				r.Header.Set("Connection", "keep-alive, Upgrade")
				r.Header.Set("Upgrade", "WebSocket")
				r.Header.Set(subprotocols, strings.Join(c.protos, ", "))
			}
			for range 2 { // the second time some results are cached
				result, ok, err := a.Authenticate(r.Clone(t.Context()))
				user := strings.Join(append([]string{result.User.Name + "/" + result.User.UID}, result.User.Groups...), " ")
				switch {
				case c.user != "":
					if !ok || err != nil || user != c.user {
						t.Errorf("got %s, %v, %v, want %s", user, ok, err, c.user)
					}
				case ok || result.User.Name != "":
					t.Errorf("got user %s, want none", user)
				case c.failure == "none":
					if err != nil {
						t.Errorf("got %v, want no error", err)
					}
				case err == nil || !strings.Contains(err.Error(), c.failure):
					t.Errorf("got %v, want %q", err, c.failure)
				}
			}
		})
	}
}

// TestExtras checks the extra fields of a user.
func TestExtras(t *testing.T) {
	key := newKey(t)
	accounts := newAccounts(t, ServiceAccountsConfig{Keys: local(t, key), Objects: present()})
	issued, err := accounts.Issue(t.Context(), Bound{
		Namespace: "ns", ServiceAccount: Reference{Name: "robot", UID: "a1"},
		Pod: &Reference{Name: "p", UID: "p1"}, Node: &Reference{Name: "n", UID: "n1"},
	}, nil, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	result, ok, err := accounts.Token(t.Context(), issued.Token, []string{issuer})
	if !ok {
		t.Fatal(err)
	}
	for key, want := range map[string]string{
		"authentication.kubernetes.io/pod-name": "p", "authentication.kubernetes.io/pod-uid": "p1",
		"authentication.kubernetes.io/node-name": "n", "authentication.kubernetes.io/node-uid": "n1",
		"authentication.kubernetes.io/credential-id": "JTI=" + issued.ID,
	} {
		if got := result.User.Extra[key]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if !slices.Equal(result.Audiences, []string{issuer}) {
		t.Errorf("the audiences are %q", result.Audiences)
	}
	ca := newAuthority(t)
	user, ok, err := userOf(ca.client(t, nil))
	if id := user.Extra[ExtraCredentialID]; !ok || err != nil || len(id) != 1 || len(id[0]) != len("X509SHA256=")+64 {
		t.Errorf("a certificate's credential is %q, %v", id, err)
	}
}

// TestSpaceWarning: a client whose token is ignored gets a warning.
func TestSpaceWarning(t *testing.T) {
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer  x"}}}
	result, ok, err := New(Config{}).Authenticate(r)
	if !ok || err != nil || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "extra space before the bearer token") {
		t.Errorf("got %+v, %v, %v, want one warning", result, ok, err)
	}
}

// TestWebSocketTokenIsRemoved: the server chooses among the other subprotocols.
func TestWebSocketTokenIsRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, path, "x,alice,1\n")
	file, err := NewTokenFile(path, []string{issuer}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	r := &http.Request{Header: http.Header{
		"Connection": {"upgrade"}, "Upgrade": {"websocket"}, subprotocols: {"a, " + tokenProtocol + "eA", "b"},
	}}
	if _, ok, err := New(Config{Tokens: []Tokens{file}, Audiences: []string{issuer}}).Authenticate(r); !ok {
		t.Fatal(err)
	}
	if got := r.Header[subprotocols]; !slices.Equal(got, []string{"a,b"}) {
		t.Errorf("the remaining subprotocols are %q", got)
	}
}

func TestStrip(t *testing.T) {
	header := http.Header{
		"Authorization": {"x"}, "X-Remote-User": {"x"}, "X-Remote-Uid": {"x"}, "X-Remote-Group": {"x"}, "X-Remote-Extra-A": {"x"}, "Accept": {"x"},
	}
	if New(Config{}).Strip(header); len(header) != 1 || header.Get("Accept") == "" {
		t.Errorf("the remaining header is %v", header)
	}
}
