package serve_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/bushttptest"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
)

// take hijacks the connection of a request and writes the head of the response, in one of the two ways in
// which handlers do.
func take(t *testing.T, w http.ResponseWriter, raw bool) net.Conn {
	if !raw {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "test")
		w.WriteHeader(http.StatusSwitchingProtocols)
	}
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Errorf("hijacking: %v", err)
		panic(http.ErrAbortHandler)
	}
	if raw {
		for _, part := range []string{"HTTP/1.1 101 Switching Protocols\r\nConnection: Upg", "rade\r\nUpgrade: test\r\n\r", "\n"} {
			if _, err := io.WriteString(conn, part); err != nil {
				t.Errorf("writing the head: %v", err)
			}
		}
	}
	return conn
}

func upgradeRequest(t *testing.T, path string) *http.Request {
	r := bushttptest.Request(t, http.MethodPost, "http://api"+path, nil)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "test")
	return r
}

// dial upgrades a connection.
func dial(t *testing.T, client *http.Client, path string) bushttp.Conn {
	t.Helper()
	response, err := client.Transport.RoundTrip(upgradeRequest(t, path))
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Upgrade") != "test" {
		t.Fatalf("got %s %v", response.Status, response.Header)
	}
	conn, ok := response.Body.(bushttp.Conn)
	if !ok {
		t.Fatalf("the body is a %T", response.Body)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestUpgrade sends much both ways at once, and ends each direction by itself.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	data := bushttptest.Noise(5<<20 + 3)
	for _, raw := range []bool{false, true} {
		t.Run(fmt.Sprintf("raw head %t", raw), func(t *testing.T) {
			client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
				if n, err := r.Body.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
					t.Errorf("the request has a body: %d, %v", n, err)
				}
				conn := take(t, w, raw)
				defer func() { _ = conn.Close() }()
				if _, err := io.Copy(conn, conn); err != nil {
					t.Errorf("echoing: %v", err)
				}
				if _, err := io.WriteString(conn, "and that is all"); err != nil {
					t.Errorf("writing after the caller's end: %v", err)
				}
			})
			conn := dial(t, client, "/echo")
			sent := make(chan error, 1)
			go func() {
				_, err := io.Copy(conn, bytes.NewReader(data))
				sent <- errors.Join(err, conn.CloseWrite())
			}()
			got, err := io.ReadAll(conn)
			if err != nil || !bytes.Equal(got, append(slices.Clip(data), "and that is all"...)) {
				t.Errorf("got %d bytes of %d, %v", len(got), len(data), err)
			}
			if err := bushttptest.Receive(t, sent, "the end of the upload"); err != nil {
				t.Error(err)
			}
			if _, err := conn.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
				t.Errorf("writing after the end: %v", err)
			}
		})
	}
}

// TestServerClosesItsHalf checks that a handler that has nothing more to send still hears the caller.
func TestServerClosesItsHalf(t *testing.T) {
	t.Parallel()
	heard := make(chan string, 1)
	client := bushttptest.Pair(t, func(w http.ResponseWriter, _ *http.Request) {
		conn := take(t, w, true)
		defer func() { _ = conn.Close() }()
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Errorf("closing a half: %v", err)
		}
		got, err := io.ReadAll(conn)
		heard <- fmt.Sprintf("%s %v", got, err)
	})
	conn := dial(t, client, "/")
	if got, err := io.ReadAll(conn); len(got) > 0 || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if _, err := io.WriteString(conn, "still here"); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	if got := bushttptest.Receive(t, heard, "the handler"); got != "still here <nil>" {
		t.Errorf("the handler heard %q", got)
	}
}

// TestCloseDelivers checks that what was written before Close arrives, and that the other end then can
// neither read nor write more.
func TestCloseDelivers(t *testing.T) {
	t.Parallel()
	client := bushttptest.Pair(t, func(w http.ResponseWriter, _ *http.Request) {
		conn := take(t, w, false)
		_, _ = io.WriteString(conn, "goodbye")
		_ = conn.Close()
		if _, err := conn.Write([]byte("x")); err == nil {
			t.Error("a closed connection is written to")
		}
	})
	conn := dial(t, client, "/")
	if got, err := io.ReadAll(conn); string(got) != "goodbye" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	for deadline := time.Now().Add(bushttptest.Patience); ; {
		if _, err := conn.Write([]byte("x")); errors.Is(err, net.ErrClosed) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the closed connection can be written to")
		}
	}
}

// TestUpgradeIsRefusedByTheHandler checks that a handler may answer as usual.
func TestUpgradeIsRefusedByTheHandler(t *testing.T) {
	t.Parallel()
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijacked" {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nnever\n")
			_ = conn.Close()
			return
		}
		http.Error(w, "never", http.StatusForbidden)
	})
	for _, path := range []string{"/", "/hijacked"} {
		response, err := client.Transport.RoundTrip(upgradeRequest(t, path))
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(response.Body)
		if response.StatusCode != http.StatusForbidden || string(got) != "never\n" || err != nil {
			t.Errorf("%s: got %s: %q, %v", path, response.Status, got, err)
		}
		_ = response.Body.Close()
	}
}

// TestBadHijacks checks that what a handler cannot do fails, and ends the call with an error.
func TestBadHijacks(t *testing.T) {
	t.Parallel()
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(w)
		switch r.URL.Path {
		case "/plain":
			if _, _, err := control.Hijack(); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("hijacking without an upgrade: %v", err)
			}
		case "/late":
			_ = control.Flush()
			if _, _, err := control.Hijack(); err == nil {
				t.Error("hijacking after the response has begun succeeds")
			}
		case "/twice":
			conn := take(t, w, true)
			if _, _, err := control.Hijack(); !errors.Is(err, http.ErrHijacked) {
				t.Errorf("hijacking again: %v", err)
			}
			if _, err := w.Write([]byte("x")); !errors.Is(err, http.ErrHijacked) {
				t.Errorf("writing after it: %v", err)
			}
			_ = conn.Close()
		case "/chunked", "/long":
			conn, _, err := control.Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
			if r.URL.Path == "/long" {
				head = strings.Repeat("x", 1<<20)
			}
			if _, err := io.WriteString(conn, head); err == nil {
				t.Errorf("%s: such a head is written", r.URL.Path)
			}
		case "/unhijacked":
			w.WriteHeader(http.StatusSwitchingProtocols)
		}
	})
	if response, _ := bushttptest.Do(t, client, bushttptest.Request(t, "GET", "http://api/plain", nil)); response.StatusCode != http.StatusOK {
		t.Errorf("without an upgrade: %s", response.Status)
	}
	for _, path := range []string{"/late", "/twice"} {
		response, err := client.Transport.RoundTrip(upgradeRequest(t, path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		_ = response.Body.Close()
	}
	for _, path := range []string{"/chunked", "/long", "/unhijacked"} {
		if response, err := client.Transport.RoundTrip(upgradeRequest(t, path)); err == nil {
			t.Errorf("%s: got %s", path, response.Status)
		}
	}
	withBody := upgradeRequest(t, "/")
	withBody.Body = io.NopCloser(strings.NewReader("x"))
	if _, err := client.Transport.RoundTrip(withBody); err == nil {
		t.Error("a request for an upgrade may have a body")
	}
}

// TestAnUnreadConnectionHoldsBackItsWriter checks that neither end buffers without bound, that deadlines
// end the wait, and that another connection is not held back.
func TestAnUnreadConnectionHoldsBackItsWriter(t *testing.T) {
	t.Parallel()
	type outcome struct {
		n   int
		err error
	}
	written := make(chan outcome, 1)
	fill := func(conn net.Conn) outcome {
		_ = conn.SetWriteDeadline(time.Now().Add(2 * time.Second))
		n, err := conn.Write(make([]byte, 64<<20))
		return outcome{n, err}
	}
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		conn := take(t, w, true)
		defer func() { _ = conn.Close() }()
		if r.URL.Path == "/echo" {
			_, _ = io.Copy(conn, conn)
			return
		}
		written <- fill(conn)
		<-r.Context().Done()
	})
	conn := dial(t, client, "/fill")
	for _, got := range []outcome{bushttptest.Receive(t, written, "the handler's deadline"), fill(conn)} {
		if !errors.Is(got.err, os.ErrDeadlineExceeded) || got.n > 4<<20 {
			t.Errorf("wrote %d bytes that nobody read, %v", got.n, got.err)
		}
	}
	_ = conn.SetReadDeadline(time.Now().Add(-time.Second))
	if _, err := io.ReadAll(conn); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("reading after the deadline: %v", err)
	}
	other := dial(t, client, "/echo")
	if _, err := io.WriteString(other, "hello"); err != nil {
		t.Error(err)
	}
	if got, err := io.ReadAll(io.LimitReader(other, 5)); string(got) != "hello" || err != nil {
		t.Errorf("another connection: %q, %v", got, err)
	}
}

// TestCanceledUpgrade checks that the end of the caller's context ends the handler's connection.
func TestCanceledUpgrade(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 1)
	client := bushttptest.Pair(t, func(w http.ResponseWriter, _ *http.Request) {
		conn := take(t, w, true)
		defer func() { _ = conn.Close() }()
		_, err := io.Copy(io.Discard, conn)
		ended <- err
	})
	ctx, cancel := context.WithCancel(t.Context())
	response, err := client.Transport.RoundTrip(upgradeRequest(t, "/").WithContext(ctx))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := bushttptest.Receive(t, ended, "the handler"); !errors.Is(err, context.Canceled) {
		t.Errorf("the handler read %v", err)
	}
	if _, err := response.Body.Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller read %v", err)
	}
}

// TestNode checks that a node's server is reached by its name alone, and that a server that is not there is
// refused at once.
func TestNode(t *testing.T) {
	t.Parallel()
	nats := bustest.NewServer(t)
	agent, apiserver := nats.Connect(), nats.Connect()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- serve.New(serve.Config{Conn: agent, Node: "n.1", Logger: bushttptest.Logger(t),
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/ws" {
					websocket.Handler(func(conn *websocket.Conn) { _, _ = io.Copy(conn, conn) }).ServeHTTP(w, r)
					return
				}
				_, _ = fmt.Fprint(w, r.URL.Path)
			})}).Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		if err := bushttptest.Receive(t, ended, "the end of the server"); err != nil {
			t.Error(err)
		}
	})
	to := func(node string) *bushttp.Transport {
		transport, err := bushttp.New(t.Context(), bushttp.Config{Conn: apiserver, Node: node, Logger: bushttptest.Logger(t)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(transport.Close)
		return transport
	}
	node := to("n.1")
	for deadline := time.Now().Add(bushttptest.Patience); ; { // until the server has subscribed
		response, err := (&http.Client{Transport: node}).Do(bushttptest.Request(t, "GET", "http://node/pods", nil))
		if errors.Is(err, bushttp.ErrNoServer) && time.Now().Before(deadline) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(response.Body); string(got) != "/pods" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
		_ = response.Body.Close()
		break
	}
	if _, err := (&http.Client{Transport: to("n")}).Do(bushttptest.Request(t, "GET", "http://node/pods", nil)); !errors.Is(err, bushttp.ErrNoServer) {
		t.Errorf("calling a node that is not there: %v", err)
	}
	// A client of a proxy before it upgrades its connection to the node.
	proxy := httptest.NewServer(&httputil.ReverseProxy{Transport: node, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: "node"})
	}})
	defer proxy.Close()
	conn, err := websocket.Dial(strings.Replace(proxy.URL, "http", "ws", 1)+"/ws", "", "http://localhost")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "hello\n"); err != nil {
		t.Fatal(err)
	}
	if got, err := bufio.NewReader(conn).ReadString('\n'); got != "hello\n" || err != nil {
		t.Errorf("through a proxy: %q, %v", got, err)
	}
	_ = conn.Close()
}
