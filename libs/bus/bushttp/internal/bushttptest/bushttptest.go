// Package bushttptest connects both ends of HTTP over NATS for tests.
package bushttptest

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
)

// Patience bounds waits for events that should happen at once.
const Patience = time.Minute

// Impatience is the Patience of an end that should notice that the other has vanished. Other ends
// are as patient as the test: on a busy machine a live end may be silent for seconds.
const Impatience = 5 * time.Second

// Logger shows the log if the test fails.
func Logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Receive returns what comes from a channel, and fails the test if nothing does within Patience.
func Receive[T any](t *testing.T, from <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(Patience):
		t.Fatalf("timed out waiting for %s", what)
	}
	panic("unreachable")
}

// Served is a Server under test.
type Served struct {
	// Stop asks the server to end.
	Stop context.CancelFunc
	done chan error
}

// End stops the server and waits for it.
func (s Served) End(t *testing.T) {
	t.Helper()
	s.Stop()
	if err := Receive(t, s.done, "the end of the server"); err != nil {
		t.Errorf("serving: %v", err)
	}
	s.done <- nil
}

// Serve serves handler on a connection until the test ends.
func Serve(t *testing.T, conn *bus.Conn, patience time.Duration, handler http.HandlerFunc) Served {
	t.Helper()
	return ServeConfig(t, serve.Config{Conn: conn, Handler: handler, Patience: patience, Logger: Logger(t)})
}

// ServeConfig serves with a configuration, once it returns, until the test ends.
func ServeConfig(t *testing.T, cfg serve.Config) Served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := Served{Stop: cancel, done: make(chan error, 1)}
	handler := cfg.Handler
	cfg.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Probe") == "" {
			handler.ServeHTTP(w, r)
		}
	})
	server := serve.New(cfg)
	go func() { s.done <- server.Run(ctx) }()
	t.Cleanup(func() { s.End(t) })
	transport := Open(t, cfg.Conn, cfg.Patience)
	for {
		// No server takes requests until it has subscribed.
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api/", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Probe", "1")
		response, err := transport.RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
			return s
		}
		// A previous server may have vanished.
		if !utilnet.IsConnectionRefused(err) && !utilnet.IsConnectionReset(err) {
			t.Fatal(err)
		}
	}
}

// Open returns a Transport, which ends with the test.
func Open(t *testing.T, conn *bus.Conn, patience time.Duration) *bushttp.Transport {
	t.Helper()
	transport, err := bushttp.New(t.Context(), bushttp.Config{Conn: conn, Patience: patience, Logger: Logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	return transport
}

// Pair returns a client of a handler.
func Pair(t *testing.T, handler http.HandlerFunc) *http.Client {
	t.Helper()
	nats := bustest.NewServer(t)
	Serve(t, nats.Connect(), Patience, handler)
	return &http.Client{Transport: Open(t, nats.Connect(), Patience)}
}

// Request returns a request.
func Request(t *testing.T, method, url string, body io.Reader) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Do sends a request and returns the whole response.
func Do(t *testing.T, client *http.Client, r *http.Request) (*http.Response, []byte) {
	t.Helper()
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return response, data
}

// Noise returns n bytes that nothing can compress, always the same.
func Noise(n int) []byte {
	data := make([]byte, n)
	source := rand.NewChaCha8([32]byte{7})
	_, _ = source.Read(data)
	return data
}
