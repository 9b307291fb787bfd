package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"

	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/libs/scheme"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// api is an apiserver that knows the token of prometheus, who may read the metrics of node-1.
type api struct {
	mu             sync.Mutex
	tokens, rights int
	fault          error
	asked          []string
}

func (a *api) answer(question scheme.Object) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch review := question.(type) {
	case *authenticationv1.TokenReview:
		a.tokens++
		review.Status.Authenticated = review.Spec.Token == "good"
		review.Status.User = authenticationv1.UserInfo{
			Username: "prometheus", UID: "u", Groups: []string{"system:monitoring"}, Extra: map[string]authenticationv1.ExtraValue{"k": {"v"}},
		}
	case *authorizationv1.SubjectAccessReview:
		a.rights++
		of := review.Spec.ResourceAttributes
		a.asked = append(a.asked, fmt.Sprintf("%s %s %s/%s/%s", review.Spec.User, of.Verb, of.Resource, of.Name, of.Subresource))
		review.Status.Allowed = of.Name == "node-1" && of.Resource == "nodes" && of.Verb == "get" && of.Subresource == "metrics"
	}
	return a.fault
}

func newServer(t *testing.T, a *api, change func(*Config)) *Server {
	t.Helper()
	c := fake.New(scheme.New())
	c.OnReview(a.answer)
	cfg := Config{
		NodeName: "node-1", NodeIP: "127.0.0.1", Client: c, Logger: slog.New(slog.DiscardHandler),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "served "+r.URL.Path) }),
	}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

// start serves a server on a free port until the test ends, and returns its URL.
func start(t *testing.T, s *Server, certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.serve(ctx, listener, certificate) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return "https://" + listener.Addr().String()
}

// ask sends a request with a token, if any, and returns the status and the body.
func ask(t *testing.T, config *tls.Config, method, url, token string) (int, string) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func insecure() *tls.Config { return &tls.Config{InsecureSkipVerify: true} } //nolint:gosec // The server signs its own.

// TestTokens checks who is served by a token, over TLS.
func TestTokens(t *testing.T) {
	a := &api{}
	url := start(t, newServer(t, a, nil), (&selfSigned{name: "node-1", ip: "127.0.0.1"}).certificate)
	for _, test := range []struct {
		method, path, token string
		code                int
		text                string
	}{
		{"GET", "/metrics/resource", "good", 200, "served /metrics/resource"},
		{"GET", "/metrics", "good", 200, "served /metrics"},
		{"GET", "/metrics", "bad", 401, "Unauthorized"},
		{"GET", "/metrics", "", 401, "Unauthorized"},
		{"GET", "/healthz", "", 401, "Unauthorized"},
		{"POST", "/metrics", "good", 403, "Forbidden (user=prometheus, verb=create, resource=nodes, subresource(s)=[metrics])\n"},
		{"GET", "/pods", "good", 403, "Forbidden (user=prometheus, verb=get, resource=nodes, subresource(s)=[pods proxy])\n"},
		{"POST", "/exec/default/web/main", "good", 403, "Forbidden (user=prometheus, verb=create, resource=nodes, subresource(s)=[proxy])\n"},
		{"GET", "/metrics/../exec/default/web/main", "good", 400, "the path of the request is not clean"},
		{"GET", "/metrics//x", "good", 400, "the path of the request is not clean"},
		{"GET", "/dial/default/web", "good", 404, "404 page not found\n"},
		{"GET", "/metricsofall", "good", 403, "Forbidden (user=prometheus, verb=get, resource=nodes, subresource(s)=[proxy])\n"},
		{"GET", "/metrics", strings.Repeat("x", maxToken+1), 401, "Unauthorized"},
	} {
		if code, text := ask(t, insecure(), test.method, url+test.path, test.token); code != test.code || text != test.text {
			t.Errorf("%s %s %.9s: got %d %q, want %d %q", test.method, test.path, test.token, code, text, test.code, test.text)
		}
	}
	if a.tokens != 2 {
		t.Errorf("%d tokens were asked for, want 2", a.tokens)
	}
	want := []string{"prometheus get nodes/node-1/metrics", "prometheus create nodes/node-1/metrics", "prometheus get nodes/node-1/pods",
		"prometheus get nodes/node-1/proxy", "prometheus create nodes/node-1/proxy"}
	if !slices.Equal(a.asked, want) {
		t.Errorf("asked %q, want %q", a.asked, want)
	}
}

// TestCertificates checks who is served by a client certificate, and the server's own certificate.
func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	issue := func(ca, user string, use pki.Use) tls.Certificate {
		authority, _, err := pki.OpenAuthority(pki.Files{}, filepath.Join(dir, ca+".crt"), filepath.Join(dir, ca+".key"), ca)
		if err != nil {
			t.Fatal(err)
		}
		certPEM, keyPEM, err := authority.Issue(pki.Leaf{Name: user, Groups: []string{"team"}, Use: use, Hosts: []string{"127.0.0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
	ann, stranger, server := issue("ours", "prometheus", pki.Client), issue("theirs", "prometheus", pki.Client), issue("ours", "prometheus", pki.Server)
	a := &api{}
	s := newServer(t, a, func(cfg *Config) { cfg.ClientCAFile = filepath.Join(dir, "ours.crt") })
	url := start(t, s, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &server, nil })
	for name, test := range map[string]struct {
		certificate *tls.Certificate
		token       string
		code        int
	}{
		"ours": {&ann, "", 200}, "of another CA": {&stranger, "", 401}, "for servers": {&server, "", 401},
		"none": {nil, "", 401}, "of another CA, and a token": {&stranger, "good", 200},
	} {
		config := insecure()
		if test.certificate != nil {
			config.Certificates = []tls.Certificate{*test.certificate}
		}
		if code, text := ask(t, config, http.MethodGet, url+"/metrics", test.token); code != test.code {
			t.Errorf("%s: got %d %s", name, code, text)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ours.crt"), []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := insecure()
	config.Certificates = []tls.Certificate{ann}
	if code, text := ask(t, config, http.MethodGet, url+"/metrics", ""); code != http.StatusUnauthorized {
		t.Errorf("with a file without CAs: got %d %s", code, text)
	}
}

// TestAnswersHold checks how long answers are kept, and that faults are not.
func TestAnswersHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &api{}
		s := newServer(t, a, nil)
		who := &authenticationv1.UserInfo{Username: "ann"}
		step := func(wait time.Duration, tokens, rights int) {
			t.Helper()
			time.Sleep(wait)
			for range 3 {
				for _, token := range []string{"good", "bad"} {
					if _, err := s.auth.known(t.Context(), token); err != nil {
						t.Fatal(err)
					}
				}
				for _, subresource := range []string{"metrics", "proxy"} {
					if allowed, err := s.auth.allowed(t.Context(), who, "get", subresource, "/"); err != nil || allowed != (subresource == "metrics") {
						t.Fatal(allowed, err)
					}
				}
			}
			if a.tokens != tokens || a.rights != rights {
				t.Errorf("asked %d and %d times, want %d and %d", a.tokens, a.rights, tokens, rights)
			}
		}
		step(0, 2, 2)
		step(deniedTTL-1, 2, 2)
		step(1, 2, 3) // The refusal is asked for again.
		step(tokenTTL-deniedTTL, 4, 4)
		step(allowedTTL-tokenTTL, 6, 6)
		a.fault = errors.New("away")
		if _, err := s.auth.known(t.Context(), "other"); err == nil {
			t.Error("without an apiserver a token is known")
		}
		if _, err := s.auth.allowed(t.Context(), who, "get", "stats", "/"); err == nil {
			t.Error("without an apiserver a right is known")
		}
		a.fault = nil
		if _, err := s.auth.known(t.Context(), "other"); err != nil {
			t.Errorf("a fault was kept: %v", err)
		}
	})
}

// TestAnswersAreBounded checks that strangers cannot fill the memory.
func TestAnswersAreBounded(t *testing.T) {
	s := newServer(t, &api{}, nil)
	for i := range maxAnswers + 100 {
		s.auth.users.put(s.auth.key(fmt.Append(nil, i)), nil, time.Hour)
	}
	if n := len(s.auth.users.kept); n != maxAnswers {
		t.Errorf("%d answers are kept", n)
	}
	if _, ok := s.auth.users.get(s.auth.key(fmt.Append(nil, maxAnswers+99))); !ok {
		t.Error("the newest answer is gone")
	}
	for range maxAsking {
		s.auth.asking <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.auth.known(ctx, "one more"); !errors.Is(err, context.Canceled) {
		t.Errorf("one question too many: %v", err)
	}
}

// TestSubresources checks the subresource of every path.
func TestSubresources(t *testing.T) {
	for path, want := range map[string]string{
		"/stats/summary": "stats", "/stats": "stats", "/statsx": "proxy", "/metrics/cadvisor": "metrics", "/logs/": "log", "/logs/a": "log",
		"/checkpoint/a": "checkpoint", "/pods": "pods proxy", "/runningpods/": "pods proxy", "/healthz/ping": "healthz proxy",
		"/configz": "configz proxy", "/run/a/b/c": "proxy", "/": "proxy", "/containerLogs/a/b/c": "proxy", "/statusz": "statusz", "/flagz": "configz",
	} {
		if got := strings.Join(subresourcesOf(path), " "); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// TestSelfSigned checks a certificate that the server signs itself, and that it is replaced in time.
func TestSelfSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &selfSigned{name: "node-1", ip: "192.0.2.1"}
		first, err := s.certificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, host := range []string{"node-1", "192.0.2.1"} {
			if err := first.Leaf.VerifyHostname(host); err != nil {
				t.Error(err)
			}
		}
		if again, err := s.certificate(nil); err != nil || again != first {
			t.Errorf("another certificate, %v", err)
		}
		time.Sleep(validity/2 + time.Second)
		if next, err := s.certificate(nil); err != nil || next == first || !next.Leaf.NotAfter.After(first.Leaf.NotAfter) {
			t.Errorf("the same certificate, %v", err)
		}
	})
}

// TestRunFaults checks what keeps the server from running.
func TestRunFaults(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"missing address":     func(cfg *Config) { cfg.Address = "nowhere" },
		"missing certificate": func(cfg *Config) { cfg.Address, cfg.CertFile, cfg.KeyFile = "127.0.0.1:0", "/none", "/none" },
	} {
		if err := newServer(t, &api{}, change).Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "serving the node's API: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := newServer(t, &api{}, func(cfg *Config) { cfg.Address = "127.0.0.1:0" }).Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("a server that has ended: %v", err)
	}
}

// TestNumber checks which port the Node publishes.
func TestNumber(t *testing.T) {
	for address, want := range map[string]int32{
		":10250": 10250, "127.0.0.1:65535": 65535, "[::1]:1": 1, "": 0, ":0": 0, ":": 0, "10250": 0, ":65536": 0, ":-1": 0, ":https": 0,
	} {
		if got := (Config{Address: address}).Number(); got != want {
			t.Errorf("%q: got %d, want %d", address, got, want)
		}
	}
}
