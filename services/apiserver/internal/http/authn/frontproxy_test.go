package authn

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// named gives a client certificate another common name.
func named(name string) func(*x509.Certificate) {
	return func(cert *x509.Certificate) { cert.Subject.CommonName = name }
}

// asPEM writes a certificate to a file, which is as if it had been written age ago.
func asPEM(t *testing.T, path string, cert *x509.Certificate, age time.Duration) {
	t.Helper()
	data := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	at := time.Now().Add(-age)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// usual are Kubernetes' usual headers.
func usual() UserHeaders {
	return UserHeaders{Name: []string{"X-Remote-User"}, UID: []string{"X-Remote-Uid"}, Groups: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"}}
}

// ofProxy returns an authenticator of client certificates of clients and of front proxies of proxies.
func ofProxy(t *testing.T, clients, proxies authority, names []string, headers UserHeaders) *Authenticator {
	t.Helper()
	own, err := NewAuthorities(clients.cert, "", quiet())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "proxies.crt")
	asPEM(t, path, proxies.cert, time.Hour)
	others, err := NewAuthorities(nil, path, quiet())
	if err != nil {
		t.Fatal(err)
	}
	return New(Config{ClientCAs: own, FrontProxy: &FrontProxy{Authorities: others, Names: names, Headers: headers}})
}

// by returns a request over TLS with a header from a client with a certificate; nil for none.
func by(cert *x509.Certificate, header http.Header) *http.Request {
	r := &http.Request{Header: header, TLS: &tls.ConnectionState{}}
	if cert != nil {
		r.TLS.PeerCertificates = []*x509.Certificate{cert}
	}
	return r
}

// TestFrontProxy checks who may name a user in headers, and who a request's user is otherwise.
func TestFrontProxy(t *testing.T) {
	clients, proxies := newAuthority(t), newAuthority(t)
	proxy := proxies.client(t, named("front-proxy-client"))
	header := http.Header{"X-Remote-User": {"bob"}, "X-Remote-Group": {"dev", "", "ops"}, "X-Remote-Uid": {"u1"}, "X-Remote-Extra-A%2fb": {"1", "2"}}
	with := func(name, value string) http.Header {
		changed := header.Clone()
		changed[name] = []string{value}
		return changed
	}
	bob := User{Name: "bob", UID: "u1", Groups: []string{"dev", "ops", GroupAuthenticated}, Extra: map[string][]string{"a/b": {"1", "2"}}}
	just := func(name string, groups ...string) User { return User{Name: name, Groups: groups} }
	for name, c := range map[string]struct {
		cert    *x509.Certificate
		header  http.Header
		allowed []string
		want    User // without a name for none
		failure string
	}{
		"a front proxy":                          {cert: proxy, header: header, allowed: []string{"x", "front-proxy-client"}, want: bob},
		"any name is allowed":                    {cert: proxies.client(t, nil), header: header, want: bob},
		"a name that is not allowed":             {cert: proxies.client(t, nil), header: header, allowed: []string{"front-proxy-client"}, failure: "x509: subject with cn=alice is not in the allowed list"},
		"no user":                                {cert: proxy, header: http.Header{"X-Remote-Group": {"system:masters"}}, failure: "unknown authority"},
		"an empty user":                          {cert: proxy, header: with("X-Remote-User", ""), failure: "unknown authority"},
		"no headers":                             {cert: proxy, failure: "unknown authority"},
		"an ordinary client":                     {cert: clients.client(t, nil), header: header, want: just("alice", "dev", GroupAuthenticated)},
		"an ordinary client of the allowed name": {cert: clients.client(t, named("front-proxy-client")), header: header, allowed: []string{"front-proxy-client"}, want: just("front-proxy-client", "dev", GroupAuthenticated)},
		"no certificate":                         {header: header, want: just(Anonymous, GroupUnauthenticated)},
		"an expired certificate": {cert: proxies.client(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Second) }), header: header,
			failure: "expired"},
		"a server's certificate": {cert: proxies.client(t, func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), header: header,
			failure: "incompatible key usage"},
		"the anonymous user": {cert: proxy, header: http.Header{"X-Remote-User": {Anonymous}}, want: just(Anonymous)},
	} {
		t.Run(name, func(t *testing.T) {
			a := ofProxy(t, clients, proxies, c.allowed, usual())
			for range 2 { // the second time the certificate is cached
				result, ok, err := a.Authenticate(by(c.cert, c.header.Clone()))
				got := result.User
				if c.failure != "" {
					if ok || err == nil || !strings.Contains(err.Error(), c.failure) {
						t.Fatalf("got %+v, %v, %v, want %q", got, ok, err, c.failure)
					}
					continue
				}
				if delete(got.Extra, ExtraCredentialID); len(got.Extra) == 0 {
					got.Extra = nil
				}
				if !ok || err != nil || !reflect.DeepEqual(got, c.want) {
					t.Fatalf("got %+v, %v, %v, want %+v", got, ok, err, c.want)
				}
			}
		})
	}
}

// TestFrontProxyWithoutTLS checks that headers mean nothing in a request that came without TLS, as those over NATS do.
func TestFrontProxyWithoutTLS(t *testing.T) {
	a := ofProxy(t, newAuthority(t), newAuthority(t), nil, usual())
	result, ok, err := a.Authenticate(&http.Request{Header: http.Header{"X-Remote-User": {"bob"}, "X-Remote-Group": {GroupMasters}}})
	if !ok || err != nil || result.User.Name != Anonymous {
		t.Errorf("got %+v, %v, %v, want the anonymous user", result, ok, err)
	}
}

// TestFrontProxyFirst checks that the headers count, not the bearer token that a front proxy passes on.
func TestFrontProxyFirst(t *testing.T) {
	clients, proxies := newAuthority(t), newAuthority(t)
	a := ofProxy(t, clients, proxies, nil, usual())
	path := filepath.Join(t.TempDir(), "tokens.csv")
	write(t, path, "x,carol,1\n")
	file, err := NewTokenFile(path, []string{issuer}, quiet())
	if err != nil {
		t.Fatal(err)
	}
	a.cfg.Tokens, a.cfg.Audiences = []Tokens{file}, []string{issuer}
	header := http.Header{"X-Remote-User": {"bob"}, "Authorization": {"Bearer x"}}
	if result, ok, err := a.Authenticate(by(proxies.client(t, nil), header)); !ok || result.User.Name != "bob" {
		t.Errorf("got %+v, %v, %v, want bob", result, ok, err)
	}
	// A certificate of a front proxy is no credential without the headers; a token with it is.
	header.Del("X-Remote-User")
	if result, ok, err := a.Authenticate(by(proxies.client(t, nil), header)); !ok || result.User.Name != "carol" {
		t.Errorf("got %+v, %v, %v, want carol", result, ok, err)
	}
}

// TestFrontProxyAuthorityChanges checks that a change of the authority's file counts at once.
func TestFrontProxyAuthorityChanges(t *testing.T) {
	clients, before, after := newAuthority(t), newAuthority(t), newAuthority(t)
	a := ofProxy(t, clients, before, nil, usual())
	header := http.Header{"X-Remote-User": {"bob"}}
	old, fresh := before.client(t, nil), after.client(t, nil)
	accepted := func(cert *x509.Certificate) bool {
		_, ok, _ := a.Authenticate(by(cert, header))
		return ok
	}
	if !accepted(old) || accepted(fresh) {
		t.Error("not exactly the first authority counts at first")
	}
	asPEM(t, a.cfg.FrontProxy.Authorities.file.path, after.cert, time.Minute)
	if accepted(old) || !accepted(fresh) {
		t.Error("not exactly the second authority counts after the change")
	}
}

// TestOwnHeaders checks headers other than the usual ones: which of several counts, and that all are removed.
func TestOwnHeaders(t *testing.T) {
	proxies := newAuthority(t)
	a := ofProxy(t, newAuthority(t), proxies, nil, UserHeaders{
		Name: []string{"x-first", "X-Second"}, UID: []string{"X-Id"}, Groups: []string{"X-Team", "X-Role"}, ExtraPrefixes: []string{"x-more-", "X-Most-"},
	})
	header := http.Header{
		"X-First": {""}, "X-Second": {"bob", "eve"}, "X-Id": {"7"}, "X-Role": {"b"}, "X-Team": {"a"}, "X-More-K": {"1"}, "X-Most-K": {"2"}, "X-More-%zz": {"3"},
		"X-Remote-User": {"eve"}, "X-Remote-Extra-A": {"x"}, "Authorization": {"x"}, "Accept": {"x"},
	}
	result, ok, err := a.Authenticate(by(proxies.client(t, nil), header))
	want := User{Name: "bob", UID: "7", Groups: []string{"a", "b", GroupAuthenticated}, Extra: map[string][]string{"k": {"1", "2"}, "%zz": {"3"}}}
	if !ok || err != nil || !reflect.DeepEqual(result.User, want) {
		t.Errorf("got %+v, %v, %v, want %+v", result.User, ok, err, want)
	}
	if a.Strip(header); len(header) != 1 || !slices.Equal(header["Accept"], []string{"x"}) {
		t.Errorf("the remaining header is %v", header)
	}
}
