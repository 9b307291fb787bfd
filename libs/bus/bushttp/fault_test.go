package bushttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/bushttptest"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
)

// line is the network between one connection and NATS.
type line struct {
	t        *testing.T
	target   string
	listener net.Listener
	open     sync.WaitGroup

	mu      sync.Mutex
	conns   []net.Conn
	silent  chan struct{} // closed while nothing gets through
	refuses bool
}

func newLine(t *testing.T, cfg bus.Config) (*line, bus.Config) {
	t.Helper()
	target, err := url.Parse(cfg.URLs[0])
	if err != nil {
		t.Fatal(err)
	}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{t: t, target: target.Host, listener: listener, silent: make(chan struct{})}
	l.open.Go(l.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		l.cut()
		l.open.Wait()
	})
	cfg.URLs = []string{"nats://" + listener.Addr().String()}
	return l, cfg
}

func (l *line) accept() {
	for {
		in, err := l.listener.Accept()
		if err != nil {
			return
		}
		out, err := new(net.Dialer).DialContext(context.WithoutCancel(l.t.Context()), "tcp", l.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		l.mu.Lock()
		if l.refuses {
			_, _ = in.Close(), out.Close()
			l.mu.Unlock()
			continue
		}
		l.conns = append(l.conns, in, out)
		l.mu.Unlock()
		l.open.Go(func() { l.copy(in, out) })
		l.open.Go(func() { l.copy(out, in) })
	}
}

func (l *line) copy(to, from net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-l.silent:
			continue // What was read is lost.
		default:
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// kill cuts the line for good, as the end of a process does.
func (l *line) kill() {
	l.refuse(true)
	l.cut()
}

// refuse blocks new connections, or allows them again.
func (l *line) refuse(refuses bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refuses = refuses
}

// cut ends the connections; new ones may be opened.
func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close()
	}
	l.conns = nil
}

// partition silently drops everything.
func (l *line) partition() { close(l.silent) }

func connect(t *testing.T, cfg bus.Config) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

// TestServerVanishes checks that a caller notices an apiserver that vanishes within a response, and
// that the next one serves it.
func TestServerVanishes(t *testing.T) {
	t.Parallel()
	for name, vanish := range map[string]func(*line){"killed": (*line).kill, "cut off": (*line).partition} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			nats := bustest.NewServer(t)
			wire, cfg := newLine(t, nats.Config())
			ended := make(chan error, 3)
			endless := func(name string) http.HandlerFunc {
				return func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/stream":
						_, _ = io.WriteString(w, name)
						w.(http.Flusher).Flush()
					case "/large":
						_, err := w.Write(make([]byte, 16<<20))
						ended <- err
						return
					case "/name":
						_, _ = io.WriteString(w, name)
						return
					case "/wait":
						_, _ = io.Copy(io.Discard, r.Body) // The caller sends nothing of it before it is read.
					}
					<-r.Context().Done()
					ended <- context.Cause(r.Context())
				}
			}
			bushttptest.Serve(t, connect(t, cfg), bushttptest.Impatience, endless("first"))
			client := &http.Client{Transport: bushttptest.Open(t, nats.Connect(), bushttptest.Impatience)}
			var answers []*http.Response
			for _, path := range []string{"/stream", "/large"} {
				response, err := client.Do(bushttptest.Request(t, "GET", "http://api"+path, nil))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = response.Body.Close() }()
				answers = append(answers, response)
			}
			waiting := make(chan error, 1)
			accepted := make(chan struct{})
			r := bushttptest.Request(t, "POST", "http://api/wait", io.MultiReader(&notifier{accepted}))
			go func() {
				response, err := client.Do(r)
				if err == nil {
					_ = response.Body.Close()
				}
				waiting <- err
			}()
			bushttptest.Receive(t, accepted, "the apiserver to take the request")
			vanish(wire)
			bushttptest.Serve(t, nats.Connect(), bushttptest.Impatience, endless("second"))
			for _, response := range answers {
				//nolint:errorlint // client-go compares.
				if _, err := io.Copy(io.Discard, response.Body); err != io.ErrUnexpectedEOF {
					t.Errorf("read %v", err)
				}
			}
			if err := bushttptest.Receive(t, waiting, "the failure of the waiting call"); !utilnet.IsConnectionReset(err) || !errors.Is(err, bushttp.ErrLost) {
				t.Errorf("got %v", err)
			}
			for range 3 {
				if err := bushttptest.Receive(t, ended, "the handler's end"); err == nil {
					t.Error("a handler's context ended without an error")
				}
			}
			for deadline := time.Now().Add(3 * bushttptest.Patience); ; {
				// NATS may not have noticed a partition and may still pass requests to the
				// unreachable server.
				response, err := client.Do(bushttptest.Request(t, "GET", "http://api/name", nil))
				if err == nil {
					data, _ := io.ReadAll(response.Body)
					_ = response.Body.Close()
					if string(data) != "second" {
						t.Errorf("%q answered", data)
					}
					return
				}
				if time.Now().After(deadline) {
					t.Fatal(err)
				}
			}
		})
	}
}

// notifier is a body that signals when it is read, and then ends.
type notifier struct{ read chan struct{} }

func (n *notifier) Read([]byte) (int, error) {
	close(n.read)
	return 0, io.EOF
}

// TestCallerVanishes checks that a caller that vanishes does not block a handler.
func TestCallerVanishes(t *testing.T) {
	t.Parallel()
	for name, vanish := range map[string]func(*line){"killed": (*line).kill, "cut off": (*line).partition} {
		t.Run(name, func(t *testing.T) {
			nats := bustest.NewServer(t)
			wire, cfg := newLine(t, nats.Config())
			ended := make(chan error, 2)
			bushttptest.Serve(t, nats.Connect(), bushttptest.Impatience, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, "hello")
				w.(http.Flusher).Flush()
				if r.URL.Path == "/large" {
					_, err := w.Write(make([]byte, 16<<20))
					ended <- err
					return
				}
				<-r.Context().Done()
				ended <- context.Cause(r.Context())
			})
			client := &http.Client{Transport: bushttptest.Open(t, connect(t, cfg), bushttptest.Impatience)}
			for _, path := range []string{"/quiet", "/large"} {
				response, err := client.Do(bushttptest.Request(t, "GET", "http://api"+path, nil))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = response.Body.Close() }()
				defer func() {
					if _, err := io.Copy(io.Discard, response.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
						t.Errorf("the caller read %v", err)
					}
				}()
			}
			vanish(wire)
			for range 2 {
				if err := bushttptest.Receive(t, ended, "the handler's end"); !errors.Is(err, bushttp.ErrLost) {
					t.Errorf("the handler ended by %v", err)
				}
			}
		})
	}
}

// TestReconnect checks that calls that lost nothing survive a cut of the connection; the others
// fail, and none hangs.
func TestReconnect(t *testing.T) {
	t.Parallel()
	nats := bustest.NewServer(t)
	wire, cfg := newLine(t, nats.Config())
	resume, away, began := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	bushttptest.Serve(t, nats.Connect(), bushttptest.Patience, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			began <- struct{}{}
			<-away
			_, _ = io.WriteString(w, "lost")
			w.(http.Flusher).Flush()
			began <- struct{}{}
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		<-resume
		_, _ = io.WriteString(w, " again")
	})
	conn := connect(t, cfg)
	client := &http.Client{Transport: bushttptest.Open(t, conn, bushttptest.Patience)}
	response, err := client.Do(bushttptest.Request(t, "GET", "http://api/", nil))
	if err != nil {
		t.Fatal(err)
	}
	back := make(chan struct{}, 10)
	defer conn.OnReconnect(func() { back <- struct{}{} })()
	wire.cut()
	for conn.Reconnects() == 0 || conn.Flush(t.Context()) != nil {
		// The callback may come for the first connection, or before the subscriptions are active.
		if conn.Reconnects() == 0 {
			bushttptest.Receive(t, back, "the connection")
		}
	}
	close(resume)
	if data, err := io.ReadAll(response.Body); err != nil || string(data) != "hello again" {
		t.Errorf("read %q, %v", data, err)
	}
	_ = response.Body.Close()
	failed := make(chan error, 1)
	r := bushttptest.Request(t, "GET", "http://api/wait", nil)
	go func() {
		response, err := client.Do(r)
		if err == nil {
			_ = response.Body.Close()
		}
		failed <- err
	}()
	bushttptest.Receive(t, began, "the handler")
	nats.Stop()
	close(away)
	bushttptest.Receive(t, began, "the data that is lost")
	nats.Start()
	if err := bushttptest.Receive(t, failed, "the failure"); !utilnet.IsConnectionReset(err) {
		t.Errorf("got %v", err)
	}
}

// TestDrain checks that a Server that shuts down lets requests finish and accepts no more.
func TestDrain(t *testing.T) {
	nats := bustest.NewServer(t)
	began, finish := make(chan struct{}, 3), make(chan struct{})
	first := bushttptest.Serve(t, nats.Connect(), bushttptest.Patience, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			return // It arrived before the server stopped accepting.
		}
		began <- struct{}{}
		<-finish
		_, _ = io.WriteString(w, "done")
	})
	client := &http.Client{Transport: bushttptest.Open(t, nats.Connect(), bushttptest.Patience)}
	answers := make(chan string, 3)
	for range 3 {
		r := bushttptest.Request(t, "GET", "http://api/", nil)
		go func() {
			response, err := client.Do(r)
			if err != nil {
				answers <- err.Error()
				return
			}
			data, err := io.ReadAll(response.Body)
			answers <- string(data)
			_, _ = response.Body.Close(), err
		}()
		bushttptest.Receive(t, began, "the handler")
	}
	first.Stop()
	for deadline := time.Now().Add(bushttptest.Patience); ; {
		response, err := client.Transport.RoundTrip(bushttptest.Request(t, "OPTIONS", "http://api/", nil))
		if errors.Is(err, bushttp.ErrNoServer) {
			break
		}
		if err == nil {
			_ = response.Body.Close()
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("a server that shuts down: %v", err)
		}
	}
	close(finish)
	for range 3 {
		if answer := bushttptest.Receive(t, answers, "the answer"); answer != "done" {
			t.Errorf("got %q", answer)
		}
	}
	first.End(t)
}

// TestDrainEnds checks that a request that does not end by itself is ended.
func TestDrainEnds(t *testing.T) {
	nats := bustest.NewServer(t)
	first := bushttptest.ServeConfig(t, serve.Config{
		Conn: nats.Connect(), Drain: 50 * time.Millisecond, Patience: bushttptest.Patience,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		}),
	})
	client := &http.Client{Transport: bushttptest.Open(t, nats.Connect(), bushttptest.Patience)}
	response, err := client.Do(bushttptest.Request(t, "GET", "http://api/", nil))
	if err != nil {
		t.Fatal(err)
	}
	first.End(t)
	if _, err := io.ReadAll(response.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("read %v", err)
	}
	_ = response.Body.Close()
}

func TestCloseEndsCalls(t *testing.T) {
	nats := bustest.NewServer(t)
	ended := make(chan struct{})
	bushttptest.Serve(t, nats.Connect(), bushttptest.Patience, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		close(ended)
	})
	transport := bushttptest.Open(t, nats.Connect(), bushttptest.Patience)
	response, err := transport.RoundTrip(bushttptest.Request(t, "GET", "http://api/", nil))
	if err != nil {
		t.Fatal(err)
	}
	transport.Close()
	if _, err := io.ReadAll(response.Body); !errors.Is(err, bushttp.ErrClosed) {
		t.Errorf("read %v", err)
	}
	_ = response.Body.Close()
	bushttptest.Receive(t, ended, "the handler's end")
	if response, err := transport.RoundTrip(bushttptest.Request(t, "GET", "http://api/", nil)); !errors.Is(err, bushttp.ErrClosed) {
		if err == nil {
			_ = response.Body.Close()
		}
		t.Errorf("after Close: %v", err)
	}
}

// TestLostWhileAway checks that a caller notices the loss of what was sent while its connection was
// down.
func TestLostWhileAway(t *testing.T) {
	nats := bustest.NewServer(t)
	wire, cfg := newLine(t, nats.Config())
	away, ended := make(chan struct{}), make(chan struct{})
	server := nats.Connect()
	bushttptest.Serve(t, server, bushttptest.Impatience, func(w http.ResponseWriter, r *http.Request) {
		defer close(ended)
		_, _ = io.WriteString(w, "hello")
		w.(http.Flusher).Flush()
		<-away
		_, _ = io.WriteString(w, " again")
		w.(http.Flusher).Flush()
	})
	client := &http.Client{Transport: bushttptest.Open(t, connect(t, cfg), bushttptest.Impatience)}
	response, err := client.Do(bushttptest.Request(t, "GET", "http://api/", nil))
	if err != nil {
		t.Fatal(err)
	}
	wire.refuse(true)
	wire.cut()
	close(away)
	bushttptest.Receive(t, ended, "the handler's end")
	if err := server.Flush(t.Context()); err != nil { // Otherwise it may arrive after the caller is back.
		t.Fatal(err)
	}
	wire.refuse(false)
	//nolint:errorlint // client-go compares.
	if data, err := io.ReadAll(response.Body); err != io.ErrUnexpectedEOF || string(data) != "hello" {
		t.Errorf("read %q, %v", data, err)
	}
	_ = response.Body.Close()
}
