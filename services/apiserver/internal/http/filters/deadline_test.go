package filters

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
)

// patience is how long tests wait for an event that must come.
const patience = time.Minute

// patient is a connection that supports deadlines.
type patient struct {
	*httptest.ResponseRecorder
	read, write time.Time
}

func (p *patient) SetReadDeadline(at time.Time) error  { p.read = at; return nil }
func (p *patient) SetWriteDeadline(at time.Time) error { p.write = at; return nil }

// TestWhatIsBounded checks how long requests may last, and how clients may shorten that.
func TestWhatIsBounded(t *testing.T) {
	for path, c := range map[string]struct {
		timeout, want time.Duration
		code          int
	}{
		"/livez":                    {want: DefaultTimeout, code: 200},
		"/livez?timeout=":           {want: DefaultTimeout, code: 200},
		"/livez?timeout=3s":         {want: 3 * time.Second, code: 200},
		"/livez?timeout=0s":         {want: DefaultTimeout, code: 200},
		"/livez?timeout=-1s":        {want: DefaultTimeout, code: 200},
		"/livez?timeout=2h":         {want: DefaultTimeout, code: 200},
		"/livez?timeout=soon":       {code: 400},
		"/readyz":                   {timeout: 10 * time.Second, want: 10 * time.Second, code: 200},
		"/readyz?x":                 {timeout: -1, code: 200},
		"/debug/pprof/profile":      {code: 200},
		"/debug/pprof/?timeout=odd": {code: 200},
	} {
		var lasts time.Time
		c0 := newChain(t, prometheus.NewRegistry(), func(_ http.ResponseWriter, r *http.Request) { lasts, _ = r.Context().Deadline() })
		c0.Authenticator, c0.Authorizer = authn.New(authn.Config{Tokens: []authn.Tokens{names{}}}), open{}
		if c.timeout != 0 {
			c0.Timeout = c.timeout
		}
		w, r := &patient{ResponseRecorder: httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Authorization", "Bearer alice")
		before := time.Now()
		c0.ServeHTTP(w, r)
		if w.Code != c.code {
			t.Errorf("%s: got %d %s", path, w.Code, w.Body)
		}
		switch {
		case c.code != http.StatusOK:
		case c.want == 0 && lasts.IsZero() && w.read.IsZero() && w.write.IsZero():
		case lasts.Before(before.Add(c.want)) || lasts.After(time.Now().Add(c.want)):
			t.Errorf("%s: its deadline is %v", path, lasts)
		case !w.read.After(lasts) || !w.write.After(w.read) || w.write.After(lasts.Add(time.Minute)):
			t.Errorf("%s: its deadline is %v, for reading %v and for writing %v", path, lasts, w.read, w.write)
		}
	}
}

// TestTooLate: a request that takes too long gets a timeout response if its response has not begun.
func TestTooLate(t *testing.T) {
	metrics := prometheus.NewRegistry()
	var c *Chain
	c = newChain(t, metrics, func(w http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		c.Encoder.Error(w, r, r.Context().Err())
	})
	c.Timeout = 10 * time.Millisecond
	w := get(c, "/livez")
	var status metav1.Status
	if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || w.Code != http.StatusGatewayTimeout || status.Reason != metav1.StatusReasonTimeout ||
		status.Message != "Timeout: request did not complete within the allotted timeout" {
		t.Errorf("got %d %s, %v", w.Code, w.Body, err)
	}
	if n := sum(t, metrics, "apiserver_request_terminations_total", "504", "GET", "/livez"); n != 1 {
		t.Errorf("counted %v terminations, want 1", n)
	}
}

// served serves a chain over TLS. Its handler writes without end, or reads the body of a POST, and
// sends the error that ends it.
func served(t *testing.T, metrics prometheus.Registerer, over2 bool) (server *httptest.Server, ended chan error) {
	t.Helper()
	ended = make(chan error, 10)
	var c *Chain
	c = newChain(t, metrics, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, err := io.ReadAll(r.Body)
			ended <- err
			c.Encoder.Error(w, r, errors.Join(err, r.Context().Err()))
			return
		}
		part := make([]byte, 1<<20)
		for {
			if _, err := w.Write(part); err != nil {
				ended <- err
				return
			}
		}
	})
	c.Timeout = 100 * time.Millisecond
	c.Authenticator, c.Authorizer = authn.New(authn.Config{Tokens: []authn.Tokens{names{}}}), open{}
	server = httptest.NewUnstartedServer(c)
	server.EnableHTTP2 = over2
	server.Config.HTTP2 = &http.HTTP2Config{WriteByteTimeout: 100 * time.Millisecond}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, ended
}

func wait(t *testing.T, what string, ended chan error) error {
	t.Helper()
	select {
	case err := <-ended:
		return err
	case <-time.After(patience):
		t.Fatalf("the handler never ends: %s", what)
		return nil
	}
}

// TestClientThatReadsNothing: a client that doesn't read the response does not hold a request.
func TestClientThatReadsNothing(t *testing.T) {
	for _, over2 := range []bool{false, true} {
		metrics := prometheus.NewRegistry()
		server, ended := served(t, metrics, over2)
		client := server.Client()
		ctx, cancel := context.WithCancel(t.Context())
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/livez", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer alice")
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.ProtoMajor == 2 != over2 {
			t.Errorf("got protocol %s", res.Proto)
		}
		if err := wait(t, res.Proto, ended); err == nil {
			t.Errorf("%s: writing ended without an error", res.Proto)
		}
		if _, err := io.Copy(io.Discard, res.Body); err == nil {
			t.Errorf("%s: a partial response looks complete to the client", res.Proto)
		}
		_ = res.Body.Close()
		cancel()
		server.Close()
		if n := sum(t, metrics, "apiserver_request_aborts_total", "GET", "/livez"); n != 1 {
			t.Errorf("%s: counted %v aborts, want 1", res.Proto, n)
		}
	}
}

// ask sends a request over HTTP/2 with windows that let the server send as much as it can.
func ask(t *testing.T, conn net.Conn) {
	t.Helper()
	const most = 1<<31 - 1
	framer := http2.NewFramer(conn, conn)
	var header bytes.Buffer
	encoder := hpack.NewEncoder(&header)
	_, err := io.WriteString(conn, http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: most}), framer.WriteWindowUpdate(0, most-1<<16))
	for _, field := range [][2]string{{":method", "GET"}, {":path", "/livez"}, {":scheme", "https"}, {":authority", "server"}, {"authorization", "Bearer alice"}} {
		err = errors.Join(err, encoder.WriteField(hpack.HeaderField{Name: field[0], Value: field[1]}))
	}
	err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: header.Bytes(), EndStream: true, EndHeaders: true}))
	if err != nil {
		t.Fatal(err)
	}
}

// TestConnectionThatTakesNothing: a connection that accepts no bytes does not hold a request,
// although it carries no end of a stream either.
func TestConnectionThatTakesNothing(t *testing.T) {
	server, ended := served(t, prometheus.NewRegistry(), true)
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	ask(t, conn)
	if err := wait(t, "HTTP/2", ended); err == nil {
		t.Error("writing ended without an error")
	}
}

// TestClientThatSendsNoBody: a client that doesn't send its body gets a timeout response.
func TestClientThatSendsNoBody(t *testing.T) {
	for _, over2 := range []bool{false, true} {
		server, ended := served(t, prometheus.NewRegistry(), over2)
		body, never := io.Pipe()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/livez", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer alice")
		req.ContentLength = 10
		res, err := server.Client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%s: got %s, want 504", res.Proto, res.Status)
		}
		if err := wait(t, res.Proto, ended); err == nil {
			t.Errorf("%s: reading ended without an error", res.Proto)
		}
		_ = res.Body.Close()
		_ = never.Close()
		server.Close()
	}
}
