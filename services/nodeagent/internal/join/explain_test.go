package join

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/scheme"
)

// serverPair returns a serving certificate, followed by that of its authority, and a key.
func (a *authority) serverPair(t *testing.T, begin, end time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	cert := a.leaf(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "kube-apiserver"}, NotBefore: begin, NotAfter: end, DNSNames: []string{"plane.example"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key.Public())
	return tls.Certificate{Certificate: [][]byte{firstCertificate(cert).Raw, a.cert.Raw}, PrivateKey: key}
}

// startServer serves with a certificate and with a clock that is ahead by the given time.
func startServer(t *testing.T, pair tls.Certificate, ahead time.Duration, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(ahead).UTC().Format(http.TimeFormat))
		handler.ServeHTTP(w, r)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func status(code int, reason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%q,"code":%d}`, message, reason, code)
	}
}

// TestWhatKeepsANodeAway: each obstacle is reported in one sentence that names it and says what to
// do.
func TestWhatKeepsANodeAway(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	now := time.Now()
	good := ours.serverPair(t, now.Add(-time.Hour), now.Add(time.Hour))
	unauthorized := status(401, "Unauthorized", "Unauthorized")
	for name, tc := range map[string]struct {
		pair    tls.Certificate
		ahead   time.Duration
		handler http.HandlerFunc
		address string // in place of the server's
		want    string // a regular expression of the whole text; ADDRESS and FILE stand for their values
	}{
		"a wrong token": {pair: good, handler: unauthorized,
			want: "the apiserver at ADDRESS does not take the bootstrap token abcdef \\(401 Unauthorized\\): it is wrong, was deleted or has expired; make one with `garboard token create` and put it into FILE"},
		"a wrong token, and a clock that is behind": {pair: good, handler: unauthorized, ahead: 3 * time.Hour,
			want: "the apiserver at ADDRESS does not take the bootstrap token .*; this machine's clock is (3h0m[01]|2h59m\\d+)s behind that of the apiserver, which may be why"},
		"no permission": {pair: good, handler: status(403, "Forbidden", `User "system:bootstrap:abcdef" cannot create`),
			want: `the bootstrap token abcdef may not ask for a node's certificate at ADDRESS, since the ClusterRoleBindings by which nodes join are missing or are for another group \(User "system:bootstrap:abcdef" cannot create\): .garboard token create. makes them`},
		"another authority": {pair: theirs.serverPair(t, now.Add(-time.Hour), now.Add(time.Hour)),
			want: `the certificate of the apiserver at ADDRESS is signed by "CN=theirs" \(SHA-256 ([0-9A-F]{2}:){31}[0-9A-F]{2}\) and not by the authority in FILE, which trusts "CN=ours" \(SHA-256 ([0-9A-F]{2}:){31}[0-9A-F]{2}\): the address is another plane's, or the plane has a new authority, whose ca.crt must be put into the file`},
		"a clock that is behind": {pair: ours.serverPair(t, now.Add(5*day), now.Add(50*day)), ahead: 6*day + time.Hour,
			want: `the certificate of the apiserver at ADDRESS begins on \S+Z, and by this machine's clock it is \S+Z, which is 6 days behind that of the apiserver: set the clock`},
		"a clock that is ahead": {pair: ours.serverPair(t, now.Add(-50*day), now.Add(-time.Minute)), ahead: -2 * time.Hour,
			want: `the certificate of the apiserver at ADDRESS ended on \S+Z, and by this machine's clock it is \S+Z, which is (2h0m0|1h59m\d+)s ahead of that of the apiserver: set the clock`},
		"a certificate that has ended": {pair: ours.serverPair(t, now.Add(-50*day), now.Add(-time.Minute)),
			want: `the certificate of the apiserver at ADDRESS ended on \S+Z, and by this machine's clock it is \S+Z, as by that of the apiserver: renew its certificate`},
		"another name": {pair: good, address: "https://localhost:%s",
			want: `the certificate of the apiserver at ADDRESS is not for that address \(x509: certificate is valid for plane.example, not localhost\): .*--hosts\)`},
		"no server": {pair: good, address: "https://127.0.0.1:1",
			want: `the apiserver at ADDRESS cannot be reached: dial tcp 127.0.0.1:1: connect: connection refused`},
		"something else": {pair: good, handler: status(500, "InternalError", "out of luck"),
			want: `the apiserver at ADDRESS answers: .*out of luck`},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var credentials []string
			server := startServer(t, tc.pair, tc.ahead, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if tc.handler == nil {
					mu.Lock()
					defer mu.Unlock()
					credentials = append(credentials, r.Header.Get("Authorization"))
					return
				}
				tc.handler(w, r)
			}))
			address := server.URL
			if tc.address != "" {
				_, port, err := net.SplitHostPort(server.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				address = strings.ReplaceAll(tc.address, "%s", port)
			}
			file := bootstrapFile(t, address, testToken, ours.pem)
			j := New(Config{NodeName: "n1", Dir: t.TempDir(), Kubeconfig: file, Logger: slog.New(slog.DiscardHandler)})
			by, err := j.caller()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { closeIdle(t, by.config) })
			// A machine that stalls for seconds may delay the server, which is another case.
			for late, deadline := true, time.Now().Add(time.Minute); late && time.Now().Before(deadline); {
				_, err = j.ask(t.Context(), by)
				late = err != nil && (strings.Contains(err.Error(), "set the clock, if it is wrong") || strings.Contains(err.Error(), "TLS handshake timeout"))
			}
			want := strings.NewReplacer("ADDRESS", regexp.QuoteMeta(address), "FILE", regexp.QuoteMeta(file)).Replace(tc.want)
			if err == nil || !regexp.MustCompile("^"+want+"$").MatchString(err.Error()) {
				t.Errorf("it says\n%v\nwant\n%s", err, want)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, shown := range credentials {
				if shown != "" {
					t.Errorf("an untrusted server was sent %q", shown)
				}
			}
		})
	}
}

// closeIdle closes the idle connections of a configuration.
func closeIdle(t *testing.T, config *rest.Config) {
	t.Helper()
	config = rest.CopyConfig(config)
	config.WrapTransport = nil
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	(&http.Client{Transport: transport}).CloseIdleConnections()
}

// TestServerAhead: a difference that the network delay could explain does not count.
func TestServerAhead(t *testing.T) {
	sent := time.Date(2026, 1, 1, 0, 0, 10, 5e8, time.UTC)
	for date, want := range map[string]time.Duration{
		"Thu, 01 Jan 2026 00:00:10 GMT": 0,
		"Thu, 01 Jan 2026 00:00:12 GMT": 0,
		"Thu, 01 Jan 2026 00:00:09 GMT": -500 * time.Millisecond,
		"Thu, 01 Jan 2026 01:00:12 GMT": time.Hour,
	} {
		answer := &http.Response{Header: http.Header{"Date": {date}}}
		if got, ok := serverAhead(answer, sent, sent.Add(1500*time.Millisecond)); !ok || got != want {
			t.Errorf("%s: %v, want %v", date, got, want)
		}
	}
	if _, ok := serverAhead(&http.Response{Header: http.Header{}}, sent, sent); ok {
		t.Error("a missing date was accepted")
	}
}

// TestSwap: requests in flight when the certificate is replaced continue, and later ones present
// the next certificate.
func TestSwap(t *testing.T) {
	ca := newAuthority(t, "ca")
	now := time.Now()
	release := make(chan struct{})
	server := startServer(t, ca.serverPair(t, now.Add(-time.Hour), now.Add(time.Hour)), 0, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serial := r.TLS.PeerCertificates[0].SerialNumber.String()
		switch r.URL.Path {
		case "/watch":
			_, _ = io.WriteString(w, "begun\n")
			_ = http.NewResponseController(w).Flush()
			<-release
		case "/refused":
			w.WriteHeader(http.StatusUnauthorized)
		}
		_, _ = io.WriteString(w, serial)
	}))
	nodePair := func() *pair {
		t.Helper()
		key, keyPEM, err := pendingKey(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		cert := ca.leaf(t, &x509.Certificate{
			Subject: pkix.Name{CommonName: "system:node:n1"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		}, key.Public())
		p, err := parsePair(cert, keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var refused, taken []string
	s := &swap{refused: func(serial string) { refused = append(refused, serial) }, taken: func(serial string) { taken = append(taken, serial) }}
	var serials []string
	var configs []*rest.Config
	next := func() {
		t.Helper()
		p := nodePair()
		config := &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: ca.pem, CertData: p.cert, KeyData: p.key}}
		serials, configs = append(serials, p.leaf.SerialNumber.String()), append(configs, config)
		if err := s.set(config, p.leaf.SerialNumber.String()); err != nil {
			t.Fatal(err)
		}
	}
	caller := &http.Client{Transport: s.noting(s)}
	get := func(path string) *http.Response {
		t.Helper()
		answer, err := caller.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = answer.Body.Close() })
		return answer
	}
	all := func(answer *http.Response) string {
		t.Helper()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatalf("the response was cut off: %v", err)
		}
		return string(text)
	}
	next()
	watch := get("/watch")
	next()
	if got := all(get("/")); got != serials[1] {
		t.Errorf("%s is presented, want %s", got, serials[1])
	}
	close(release)
	if got := all(watch); got != "begun\n"+serials[0] {
		t.Errorf("the watch has %q", got)
	}
	if len(refused) != 0 || len(taken) != 2 {
		t.Errorf("rejected %v, accepted %v", refused, taken)
	}
	_ = all(get("/refused"))
	if len(refused) != 1 || refused[0] != serials[1] {
		t.Errorf("rejected %v", refused)
	}
	for _, config := range configs {
		closeIdle(t, config)
	}
}

// TestOver: a client created for the node presents the joiner's certificate.
func TestOver(t *testing.T) {
	failing := errors.New("nobody")
	j := New(Config{Kubeconfig: bootstrapFile(t, "https://192.0.2.1", testToken, nil)})
	if err := j.Trouble(t.Context()); err != nil {
		t.Errorf("there is trouble before the first request: %v", err)
	}
	s := j.client
	s.current = transportFunc(func(*http.Request) (*http.Response, error) { return nil, failing })
	config := client.Over(&rest.Config{Host: "https://192.0.2.1"}, s)
	config.Wrap(s.noting)
	api, err := client.New(config, scheme.New())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Of[*csr](api).Get(t.Context(), "", "x", metav1.GetOptions{}); !errors.Is(err, failing) {
		t.Errorf("got %v", err)
	}
	if err := j.Trouble(t.Context()); err == nil || err.Error() != "the apiserver at https://192.0.2.1 cannot be reached: nobody" {
		t.Errorf("the trouble is %v", err)
	}
	s.current = transportFunc(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNotFound, Body: http.NoBody}, nil
	})
	if _, err := client.Of[*csr](api).Get(t.Context(), "", "x", metav1.GetOptions{}); err == nil {
		t.Error("the request succeeded")
	}
	if err := j.Trouble(t.Context()); err != nil {
		t.Errorf("there is trouble after an answer: %v", err)
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNoAddressIsNamed checks the sentences of a node whose bootstrap kubeconfig names no apiserver, so that it
// calls over NATS only.
func TestNoAddressIsNamed(t *testing.T) {
	c := &caller{file: "FILE", config: &rest.Config{BearerToken: testToken}}
	shown := firstCertificate(newAuthority(t, "theirs").pem)
	for want, err := range map[string]error{
		"the apiserver does not take the bootstrap token abcdef (401 Unauthorized): ":                       apierrors.NewUnauthorized("no"),
		"the bootstrap token abcdef may not ask for a node's certificate, since the ClusterRoleBindings ":   apierrors.NewForbidden(schema.GroupResource{}, "", nil),
		"the certificate of NATS is signed by \"CN=theirs\" and not by the authority in FILE, which trusts": x509.UnknownAuthorityError{Cert: shown},
		"the apiserver cannot be reached: waiting for NATS":                                                 errors.New("waiting for NATS"),
	} {
		if got := c.explain(t.Context(), err).Error(); !strings.HasPrefix(got, want) {
			t.Errorf("it says\n%s\nwant\n%s", got, want)
		}
	}
}
