package peers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/discovery"
	"github.com/garboard/garboard/services/apiserver/internal/http/response"
	"github.com/garboard/garboard/services/apiserver/internal/http/upgradetest"
	"github.com/garboard/garboard/services/apiserver/internal/http/webhook/webhooktest"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
)

// world is an apiserver's Peers, of which there is one.
type world struct {
	t       *testing.T
	peers   *Peers
	peer    *webhooktest.Server
	front   *httptest.Server // serves what the peer has to jane
	pool    *x509.CertPool
	address string
	reads   int // of documents that were sent whole
}

// newWorld returns a world whose peer serves gadgets by serve. It tells so in a document.
func newWorld(t *testing.T, document string, serve http.HandlerFunc) *world {
	t.Helper()
	w := &world{t: t, pool: x509.NewCertPool()}
	w.peer = webhooktest.Start(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; path != "/api" && path != "/apis" {
			serve(rw, r)
			return
		}
		if r.Header.Get("X-Remote-User") != "system:apiserver" || !AsksForOwn(r) {
			http.Error(rw, "not asked by an apiserver", http.StatusForbidden)
			return
		}
		rw.Header().Set("Etag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			rw.WriteHeader(http.StatusNotModified)
			return
		}
		w.reads++
		if r.URL.Path == "/api" {
			_, _ = io.WriteString(rw, "{}")
			return
		}
		_, _ = io.WriteString(rw, document)
	}), serverName)
	if !w.pool.AppendCertsFromPEM(w.peer.CABundle) {
		t.Fatal("the peer has no authority")
	}
	u, err := url.Parse(w.peer.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.address = u.Host
	table, quiet := scheme.New(), slog.New(slog.DiscardHandler)
	w.peers = New(Config{
		Table: table, Addresses: func(context.Context) (map[string]string, error) { return map[string]string{"b": w.address}, nil },
		Authorities: func() *x509.CertPool { return w.pool }, Certificate: func() (*tls.Certificate, error) { return &tls.Certificate{}, nil },
		Elsewhere: &discovery.Others{}, Gate: drain.New(), Encoder: response.New(table, quiet), Logger: quiet, Registerer: prometheus.NewRegistry(),
	})
	w.front = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.peers.Serves(r) {
			http.Error(rw, "no peer serves it", http.StatusTeapot)
			return
		}
		rw.Header().Set("Audit-Id", "audit-1")
		w.peers.ServeHTTP(rw, r.WithContext(authn.WithUser(r.Context(), authn.User{Name: "jane", Groups: []string{"devs"}})))
	}))
	t.Cleanup(func() {
		w.front.Close()
		w.peers.transport.CloseIdleConnections()
	})
	return w
}

// about returns a discovery document that lists gadgets.
func about() string {
	return `{"items":[{"metadata":{"name":"example.org"},"versions":[{"version":"v1","resources":[{"resource":"gadgets","scope":"Namespaced"}]}]}]}`
}

const gadgets = "/apis/example.org/v1/gadgets"

// ask sends a request for gadgets.
func (w *world) ask(header http.Header) (code int, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.front.URL+gadgets+"?a=b", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header = header
	answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}).Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// TestServe checks what a peer gets to know of a request, and that a client cannot tell it anything else.
func TestServe(t *testing.T) {
	w := newWorld(t, about(), func(rw http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(rw, r.URL.RequestURI(), r.Header["X-Remote-User"], r.Header["X-Remote-Group"], r.Header["X-Remote-Uid"], r.Header.Get(passedOn), r.Header.Get("Audit-Id"))
	})
	w.peers.refresh(t.Context())
	code, body := w.ask(http.Header{
		"X-Remote-User": {"admin"}, "X-Remote-Group": {"system:masters"}, "X-Remote-Uid": {"1"}, "Audit-Id": {"forged"}, "Connection": {"X-Remote-User"},
	})
	if want := gadgets + "?a=b[jane] [devs] []" + "true" + "audit-1"; code != http.StatusOK || strings.Join(strings.Fields(body), " ") != want {
		t.Errorf("got %d %s, want %s", code, body, want)
	}
	if code, body := w.ask(http.Header{passedOn: {"true"}}); code != http.StatusTeapot {
		t.Errorf("a request that was passed on: %d %s", code, body)
	}
}

// TestDocuments checks that a document is read again only when it has changed, and that a peer whose document cannot
// be used serves nothing.
func TestDocuments(t *testing.T) {
	w := newWorld(t, about(), func(http.ResponseWriter, *http.Request) {})
	for range 3 {
		w.peers.refresh(t.Context())
	}
	if code, body := w.ask(nil); w.reads != 2 || code != http.StatusOK {
		t.Errorf("%d documents were read, want 2: %d %s", w.reads, code, body)
	}
	first := w.peers.Discovery()
	w.peers.refresh(t.Context())
	if w.peers.Discovery() != first || len(first.APIs) != 1 {
		t.Error("discovery is built again though nothing has changed")
	}
	for name, document := range map[string]string{
		"no JSON": "gadgets", "a wrong type": `{"items":{}}`, "nothing": "",
		"too much": about() + strings.Repeat(" ", maxDocument),
	} {
		w := newWorld(t, document, func(http.ResponseWriter, *http.Request) {})
		w.peers.refresh(t.Context())
		if code, body := w.ask(nil); code != http.StatusTeapot {
			t.Errorf("%s: %d %s", name, code, body)
		}
	}
}

// TestPeersThatAreNotTrusted checks that a server with a certificate of another authority is not asked, also when the
// authorities change while it is known.
func TestPeersThatAreNotTrusted(t *testing.T) {
	w := newWorld(t, about(), func(http.ResponseWriter, *http.Request) {})
	w.peers.refresh(t.Context())
	if code, body := w.ask(nil); code != http.StatusOK {
		t.Errorf("%d %s", code, body)
	}
	w.pool = x509.NewCertPool()
	w.peers.transport.CloseIdleConnections()
	if code, body := w.ask(nil); code != http.StatusServiceUnavailable || !strings.Contains(body, "the apiserver b, which serves this resource, cannot be reached") {
		t.Errorf("%d %s", code, body)
	}
	w.peers.refresh(t.Context())
	if code, body := w.ask(nil); code != http.StatusTeapot {
		t.Errorf("%d %s", code, body)
	}
}

// TestRedirect checks that a peer cannot send a client elsewhere.
func TestRedirect(t *testing.T) {
	w := newWorld(t, about(), func(rw http.ResponseWriter, r *http.Request) {
		http.Redirect(rw, r, "https://example.org/", http.StatusFound)
	})
	w.peers.refresh(t.Context())
	if code, body := w.ask(nil); code != http.StatusBadGateway {
		t.Errorf("%d %s", code, body)
	}
}

// TestUpgrade checks that an upgraded connection is passed on, with the user, in both directions.
func TestUpgrade(t *testing.T) {
	w := newWorld(t, about(), upgradetest.Echo)
	w.peers.refresh(t.Context())
	upgradetest.Check(t, w.front.URL, gadgets)
}
