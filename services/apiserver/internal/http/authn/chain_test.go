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

// client makes a client certificate of alice in the group dev, after change.
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

// bootstrapToken is the Secret of the token abcdef.0123456789abcdef, after change.
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

// attempt is what a client sends.
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

// TestAuthentication is the chain of authenticators: what a client sends, and who it then is.
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
		issued, err := newAccounts(t, ServiceAccountsConfig{Issuers: []string{iss}, Key: key}).Issue(bound, audiences, life)
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
		// user is "name/uid groups..."; empty when the request is refused, of which the error has
		// failure, or none if that is "none".
		user, failure string
	}{
		// Certificates.
		"a certificate's common name and organizations": {attempt{cert: ca.client(t, nil)}, "alice/ dev system:authenticated", ""},
		"its UID":                                  {attempt{cert: ca.client(t, withUID("u1"))}, "alice/u1 dev system:authenticated", ""},
		"two UIDs":                                 {attempt{cert: ca.client(t, withUID("u1", "u2"))}, "", "expected 1 UID, but found multiple: [u1 u2]"},
		"an empty UID":                             {attempt{cert: ca.client(t, withUID(""))}, "", "UID cannot be an empty string"},
		"a certificate of another authority":       {attempt{cert: other.client(t, nil)}, "", "failed: x509: certificate signed by unknown authority"},
		"one that has ended":                       {attempt{cert: ca.client(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) })}, "", "certificate has expired or is not yet valid"},
		"one that has not begun":                   {attempt{cert: ca.client(t, func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) })}, "", "certificate has expired or is not yet valid"},
		"one for servers":                          {attempt{cert: ca.client(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} })}, "", "incompatible key usage"},
		"one without a common name is none":        {attempt{cert: ca.client(t, func(c *x509.Certificate) { c.Subject.CommonName = "" })}, "system:anonymous/ system:unauthenticated", ""},
		"a wrong certificate beside a right token": {attempt{cert: other.client(t, nil), header: "Bearer filetoken"}, "bob/b1 ops night system:authenticated", ""},
		"a right certificate beside a wrong token": {attempt{cert: ca.client(t, nil), header: "Bearer nonsense"}, "alice/ dev system:authenticated", ""},
		"both wrong":                               {attempt{cert: other.client(t, nil), header: "Bearer nonsense"}, "", "invalid bearer token]"},
		"a certificate counts before a token":      {attempt{cert: ca.client(t, nil), header: "Bearer filetoken"}, "alice/ dev system:authenticated", ""},
		// The Authorization header.
		"no credential":                                  {attempt{}, "system:anonymous/ system:unauthenticated", ""},
		"another scheme is no credential":                {attempt{header: "Basic YTpi"}, "system:anonymous/ system:unauthenticated", ""},
		"a scheme without a token is none":               {attempt{header: "Bearer "}, "system:anonymous/ system:unauthenticated", ""},
		"two spaces before the token: it does not count": {attempt{header: "Bearer  filetoken"}, "system:anonymous/ system:unauthenticated", ""},
		"the scheme in small letters":                    {attempt{header: "bearer filetoken"}, "bob/b1 ops night system:authenticated", ""},
		"what comes after the token does not count":      {attempt{header: "Bearer filetoken x"}, "bob/b1 ops night system:authenticated", ""},
		"a token that is nobody's":                       {bearer("nonsense"), "", "invalid bearer token"},
		// Anonymous requests.
		"anonymous, but not where it is off":   {attempt{anon: AnonymousRule{Off: true}}, "", "none"},
		"anonymous, where its path is allowed": {attempt{path: "/livez", anon: AnonymousRule{Paths: []string{"/livez"}}}, "system:anonymous/ system:unauthenticated", ""},
		"anonymous, elsewhere":                 {attempt{path: "/api", anon: AnonymousRule{Paths: []string{"/livez"}}}, "", "none"},
		// The token file.
		"a token of the file":                     {bearer("filetoken"), "bob/b1 ops night system:authenticated", ""},
		"one of the anonymous user gets no group": {bearer("anontoken"), "system:anonymous/", ""},
		"one that has the group gets no second":   {bearer("known"), "carol/c1 system:authenticated", ""},
		// Bootstrap tokens.
		"a bootstrap token":                              {boot(good, nil), "system:bootstrap:abcdef/ system:bootstrappers system:authenticated", ""},
		"its extra groups":                               {boot(good, data("auth-extra-groups", "system:bootstrappers:z,system:bootstrappers:a")), "system:bootstrap:abcdef/ system:bootstrappers system:bootstrappers:a system:bootstrappers:z system:authenticated", ""},
		"extra groups that it may not have":              {boot(good, data("auth-extra-groups", "system:masters")), "", "invalid bearer token"},
		"an extra group that ends badly":                 {boot(good, data("auth-extra-groups", "system:bootstrappers:a-")), "", "invalid bearer token"},
		"a wrong secret":                                 {boot(wrong, nil), "", "invalid bearer token"},
		"a Secret of another type":                       {boot(good, func(s *corev1.Secret) { s.Type = "Opaque" }), "", "invalid bearer token"},
		"a Secret of another ID":                         {boot(good, data("token-id", "fedcba")), "", "invalid bearer token"},
		"one that is not for logging in":                 {boot(good, data("usage-bootstrap-authentication", "yes")), "", "invalid bearer token"},
		"one that has expired":                           {boot(good, data("expiration", "2020-01-01T00:00:00Z")), "", "invalid bearer token"},
		"one that will expire":                           {boot(good, data("expiration", "2999-01-01T00:00:00Z")), "system:bootstrap:abcdef/ system:bootstrappers system:authenticated", ""},
		"one whose expiration makes no sense":            {boot(good, data("expiration", "tomorrow")), "", "invalid bearer token"},
		"one that is being deleted":                      {boot(good, func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} }), "", "invalid bearer token"},
		"a token with capitals":                          {boot(strings.ToUpper(good), nil), "", "invalid bearer token"},
		"a bootstrap token for which there is no Secret": {bearer(good), "", "invalid bearer token"},
		// Service account tokens.
		"a service account's token":                          {bearer(jwt(robot)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"one that is bound to a pod":                         {bearer(jwt(onPod)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"to a secret":                                        {bearer(jwt(onSecret)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"to a node":                                          {bearer(jwt(onNode)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"its service account is gone":                        {with(bearer(jwt(robot)), func(a *attempt) { a.objects = without("account/robot") }), "", `"account/robot" not found`},
		"it is another one":                                  {bearer(jwt(bound(func(b *Bound) { b.ServiceAccount.UID = "a2" }))), "", "service account UID (a1) does not match claim (a2)"},
		"it is being deleted, since long":                    {with(bearer(jwt(robot)), func(a *attempt) { a.objects = deleted(2*time.Minute, "account/robot") }), "", "service account ns/robot has been deleted"},
		"it is being deleted, since shortly":                 {with(bearer(jwt(robot)), func(a *attempt) { a.objects = deleted(time.Second, "account/robot") }), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"its pod is gone":                                    {with(bearer(jwt(onPod)), func(a *attempt) { a.objects = without("pod/p") }), "", "service account token has been invalidated"},
		"its pod is another one":                             {bearer(jwt(bound(func(b *Bound) { b.Pod = &Reference{Name: "p", UID: "p2"} }))), "", "pod UID (p1) does not match service account pod ref claim (p2)"},
		"its pod is being deleted, since long":               {with(bearer(jwt(onPod)), func(a *attempt) { a.objects = deleted(2*time.Minute, "pod/p") }), "", "service account token has been invalidated"},
		"the node of its pod is gone, which does not matter": {with(bearer(jwt(onPod)), func(a *attempt) { a.objects = without("node/n") }), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"its secret is gone":                                 {with(bearer(jwt(onSecret)), func(a *attempt) { a.objects = without("secret/s") }), "", "service account token has been invalidated"},
		"its secret is another one":                          {bearer(jwt(bound(func(b *Bound) { b.Secret = &Reference{Name: "s", UID: "s2"} }))), "", "secret UID (s1) does not match service account secret ref claim (s2)"},
		"its node is gone":                                   {with(bearer(jwt(onNode)), func(a *attempt) { a.objects = without("node/n") }), "", "service account token has been invalidated"},
		"its node is another one":                            {bearer(jwt(bound(func(b *Bound) { b.Node = &Reference{Name: "n", UID: "n2"} }))), "", "node UID (n1) does not match service account node ref claim (n2)"},
		"it has expired":                                     {with(bearer(jwt(robot)), func(a *attempt) { a.after = time.Hour + 2*leeway }), "", "service account token has expired"},
		"it is not valid yet":                                {with(bearer(jwt(robot)), func(a *attempt) { a.after = -2 * leeway }), "", "service account token is not valid yet"},
		"it is for others":                                   {bearer(jwt(robot, "vault", "x")), "", `token audiences ["vault" "x"] is invalid for the target audiences ["https://issuer"]`},
		"it is for others and the API":                       {bearer(jwt(robot, "vault", issuer)), "system:serviceaccount:ns:robot/a1 system:serviceaccounts system:serviceaccounts:ns system:authenticated", ""},
		"it is signed by another key":                        {bearer(signed(newKey(t), issuer, robot, time.Hour)), "", "invalid signature, no keys found"},
		"its signature was changed":                          {bearer(jwt(robot)[:len(jwt(robot))-8] + "AAAAAAAA"), "", "go-jose"},
		"it is of another issuer":                            {bearer(signed(key, "https://other", robot, time.Hour)), "", "invalid bearer token"},
		"it is not signed":                                   {bearer("eyJhbGciOiJub25lIn0." + base64.RawURLEncoding.EncodeToString([]byte(`{"iss":"https://issuer"}`)) + "."), "", "invalid bearer token"},
		"it is no JWT":                                       {bearer("a.b.c"), "", "invalid bearer token"},
		// Tokens in a WebSocket's subprotocols.
		"a token as a subprotocol":               {socket("filetoken", "v5.channel.k8s.io"), "bob/b1 ops night system:authenticated", ""},
		"with no other subprotocol":              {socket("filetoken"), "", "missing additional subprotocol"},
		"two tokens":                             {socket("filetoken", tokenProtocol+"eA", "x"), "", "multiple base64.bearer.authorization tokens specified"},
		"a token that is no base64":              {attempt{protos: []string{tokenProtocol + "!", "x"}}, "", "invalid base64.bearer.authorization token encoding"},
		"a token that is no text":                {socket("\xff\xfe", "x"), "", "invalid base64.bearer.authorization token"},
		"a subprotocol's token that is nobody's": {socket("nonsense", "x"), "", "invalid bearer token"},
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
			accounts := newAccounts(t, ServiceAccountsConfig{Key: key, Objects: c.objects}).at(c.after)
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
			for range 2 { // the second time some of it is remembered
				result, ok, err := a.Authenticate(r.Clone(t.Context()))
				user := strings.Join(append([]string{result.User.Name + "/" + result.User.UID}, result.User.Groups...), " ")
				switch {
				case c.user != "":
					if !ok || err != nil || user != c.user {
						t.Errorf("%s %v %v, want %s", user, ok, err, c.user)
					}
				case ok || result.User.Name != "":
					t.Errorf("it is %s, want nobody", user)
				case c.failure == "none":
					if err != nil {
						t.Errorf("%v, want no error", err)
					}
				case err == nil || !strings.Contains(err.Error(), c.failure):
					t.Errorf("%v, want %q", err, c.failure)
				}
			}
		})
	}
}

// TestExtras is what a user's credential tells beside the user.
func TestExtras(t *testing.T) {
	key := newKey(t)
	accounts := newAccounts(t, ServiceAccountsConfig{Key: key, Objects: present()})
	issued, err := accounts.Issue(Bound{
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
		t.Errorf("for %q", result.Audiences)
	}
	ca := newAuthority(t)
	user, ok, err := userOf(ca.client(t, nil))
	if id := user.Extra[ExtraCredentialID]; !ok || err != nil || len(id) != 1 || len(id[0]) != len("X509SHA256=")+64 {
		t.Errorf("a certificate's credential is %q, %v", id, err)
	}
}

// TestSpaceWarning: a client whose token is not looked at is told.
func TestSpaceWarning(t *testing.T) {
	r := &http.Request{Header: http.Header{"Authorization": {"Bearer  x"}}}
	result, ok, err := New(Config{}).Authenticate(r)
	if !ok || err != nil || len(result.Warnings) != 1 || !strings.Contains(result.Warnings[0], "extra space before the bearer token") {
		t.Errorf("%+v %v %v", result, ok, err)
	}
}

// TestWebSocketTokenIsRemoved: the server chooses among the others.
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
		t.Errorf("left: %q", got)
	}
}

func TestStrip(t *testing.T) {
	header := http.Header{
		"Authorization": {"x"}, "X-Remote-User": {"x"}, "X-Remote-Uid": {"x"}, "X-Remote-Group": {"x"}, "X-Remote-Extra-A": {"x"}, "Accept": {"x"},
	}
	if Strip(header); len(header) != 1 || header.Get("Accept") == "" {
		t.Errorf("left: %v", header)
	}
}
