package bushttp_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/internal/bushttptest"
	"github.com/garboard/garboard/libs/bus/bustest"
)

// TestSameAsHTTP checks that a handler sees, and a caller gets, the same as over HTTP.
func TestSameAsHTTP(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		w.Header().Add("X-Two", "1")
		w.Header().Add("X-Two", "2")
		switch r.URL.Path {
		case "/nothing":
			w.WriteHeader(http.StatusNoContent)
		case "/cached":
			w.WriteHeader(http.StatusNotModified)
		case "/length":
			w.Header().Set("Content-Length", "5")
			_, _ = io.WriteString(w, "12345")
		case "/fail":
			http.Error(w, "no", http.StatusForbidden)
		case "/redirect":
			http.Redirect(w, r, "/elsewhere?x=1", http.StatusFound)
		case "/silent":
		case "/early":
			w.WriteHeader(http.StatusEarlyHints)
			w.WriteHeader(http.StatusTeapot)
		default:
			_, _ = fmt.Fprintf(w, "%s %s %s %s %v %d %q %q %v", r.Method, r.URL.Path, r.URL.RawQuery, r.Host, r.Header["X-A"], r.ContentLength,
				r.Header.Get("Authorization"), body, r.TLS)
		}
	}
	overHTTP := httptest.NewServer(http.HandlerFunc(handler))
	defer overHTTP.Close()
	client := bushttptest.Pair(t, handler)
	plain := overHTTP.Client()
	plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.CheckRedirect = plain.CheckRedirect
	for _, c := range []struct {
		method, path string
		body         func() io.Reader
	}{
		{method: "GET", path: "/a/b%2Fc?x=1&y=%20"},
		{method: "HEAD", path: "/length"},
		{method: "HEAD", path: "/x"},
		{method: "GET", path: "/length"},
		{method: "GET", path: "/nothing"},
		{method: "GET", path: "/cached"},
		{method: "GET", path: "/fail"},
		{method: "GET", path: "/redirect"},
		{method: "GET", path: "/silent"},
		{method: "GET", path: "/early"},
		{method: "POST", path: "/x", body: func() io.Reader { return strings.NewReader("some words") }},
		{method: "POST", path: "/x"},
		{method: "PATCH", path: "/x", body: func() io.Reader {
			return io.MultiReader(strings.NewReader("of no "), strings.NewReader("known length"))
		}},
		{method: "PUT", path: "/x", body: func() io.Reader { return strings.NewReader("") }},
		{method: "DELETE", path: "/x", body: func() io.Reader { return strings.NewReader("{}") }},
		{method: "OPTIONS", path: "/x"},
	} {
		t.Run(c.method+c.path, func(t *testing.T) {
			var got []string
			for _, by := range []*http.Client{plain, client} {
				var body io.Reader
				if c.body != nil {
					body = c.body()
				}
				r := bushttptest.Request(t, c.method, overHTTP.URL+c.path, body)
				r.Header["X-A"] = []string{"one", "two"}
				r.Header.Set("Authorization", "Bearer abc")
				response, data := bushttptest.Do(t, by, r)
				response.Header.Del("Date")
				got = append(got, fmt.Sprintf("%s %s %d %v %q", response.Status, response.Proto, response.ContentLength, response.Header, data))
			}
			if got[0] != got[1] {
				t.Errorf("over HTTP: %s\nover NATS: %s", got[0], got[1])
			}
		})
	}
}

func TestHeadersOfAConnectionAreNotCarried(t *testing.T) {
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "close")
		for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Te", "Expect", "Connection"} {
			if r.Header.Get(name) != "" {
				t.Errorf("header %s arrived: %q", name, r.Header.Get(name))
			}
		}
		if ips := utilnet.SourceIPs(r); len(ips) != 0 || !strings.HasPrefix(r.RemoteAddr, "nats:") {
			t.Errorf("the request's source is %v, %q", ips, r.RemoteAddr)
		}
	})
	r := bushttptest.Request(t, "GET", "http://api/", nil)
	for _, name := range []string{"X-Forwarded-For", "X-Real-Ip", "Forwarded", "Te", "Expect"} {
		r.Header.Set(name, "10.1.2.3")
	}
	r.Header.Set("Connection", "keep-alive")
	if response, _ := bushttptest.Do(t, client, r); response.Header.Get("Connection") != "" || response.Close {
		t.Error("the response has connection headers")
	}
}

func TestLargeBodies(t *testing.T) {
	data := bushttptest.Noise(9<<20 + 17)
	sum := sha256.Sum256(data)
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		got := sha256.New()
		if _, err := io.Copy(got, r.Body); err != nil {
			t.Errorf("reading the request: %v", err)
		}
		if !bytes.Equal(got.Sum(nil), sum[:]) {
			t.Error("the request's body differs")
		}
		source := rand.New(rand.NewPCG(1, 2))
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+source.IntN(700_000))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Errorf("answering: %v", err)
				return
			}
			if source.IntN(3) == 0 {
				w.(http.Flusher).Flush()
			}
			rest = rest[n:]
		}
	})
	for name, body := range map[string]io.Reader{"known": bytes.NewReader(data), "unknown": io.MultiReader(bytes.NewReader(data))} {
		t.Run(name, func(t *testing.T) {
			if _, got := bushttptest.Do(t, client, bushttptest.Request(t, "POST", "http://api/", body)); !bytes.Equal(got, data) {
				t.Errorf("got %d bytes that differ from the %d sent", len(got), len(data))
			}
		})
	}
}

// TestEveryLength tests sizes around the limits of messages.
func TestEveryLength(t *testing.T) {
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("reading the request: %v", err)
		}
		_, _ = w.Write(data)
	})
	var lengths []int
	for _, about := range []int{0, 128 << 10, 256 << 10, 512 << 10, 1 << 20} {
		for by := -300; by <= 300; by += 37 {
			lengths = append(lengths, max(0, about+by))
		}
	}
	data := bushttptest.Noise(slices.Max(lengths))
	for _, n := range lengths {
		if _, got := bushttptest.Do(t, client, bushttptest.Request(t, "POST", "http://api/", bytes.NewReader(data[:n]))); !bytes.Equal(got, data[:n]) {
			t.Errorf("sent %d bytes, got %d back", n, len(got))
		}
	}
}

func TestRequestsBodyOfAnotherLength(t *testing.T) {
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			t.Error("a wrong body was read to the end")
		}
	})
	for _, length := range []int64{5, 1 << 20} {
		for _, by := range []int{-1, 1} {
			r := bushttptest.Request(t, "POST", "http://api/", io.MultiReader(bytes.NewReader(make([]byte, int(length)+by))))
			r.ContentLength = length
			if response, err := client.Do(r); err == nil {
				_ = response.Body.Close()
				t.Errorf("a body of %d bytes was sent with length %d", int(length)+by, length)
			}
		}
	}
}

// TestLive checks that flushed data arrives at once, and that a handler can answer a body while it
// is being sent.
func TestLive(t *testing.T) {
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		buffer := make([]byte, 100)
		for {
			n, err := r.Body.Read(buffer)
			_, _ = w.Write(bytes.ToUpper(buffer[:n]))
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	})
	in, out := io.Pipe()
	response, err := client.Do(bushttptest.Request(t, "POST", "http://api/", in))
	if err != nil {
		t.Fatal(err)
	}
	buffer := make([]byte, 10)
	for i := range 20 {
		_, _ = fmt.Fprintf(out, "line %02d;", i)
		if _, err := io.ReadFull(response.Body, buffer[:8]); err != nil || string(buffer[:8]) != fmt.Sprintf("LINE %02d;", i) {
			t.Fatalf("got %q, %v", buffer[:8], err)
		}
	}
	_ = out.Close()
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Errorf("got %q, %v at the end", rest, err)
	}
	_ = response.Body.Close()
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	nats := bustest.NewServer(t)
	transport := bushttptest.Open(t, nats.Connect(), bushttptest.Impatience)
	check := func(what error) {
		t.Helper()
		body := closing{strings.NewReader("x"), make(chan struct{}, 9)}
		response, err := transport.RoundTrip(bushttptest.Request(t, "POST", "http://api/", body))
		if err == nil {
			_ = response.Body.Close()
		}
		if !utilnet.IsConnectionRefused(err) || !errors.Is(err, what) {
			t.Errorf("got %v", err)
		}
		bushttptest.Receive(t, body.closed, "the closing of the request's body")
	}
	check(bushttp.ErrNoServer)
	nats.Stop()
	for deadline := time.Now().Add(bushttptest.Patience); time.Now().Before(deadline); {
		r := bushttptest.Request(t, "GET", "http://api/", nil)
		response, err := transport.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		if errors.Is(err, bus.ErrDisconnected) {
			check(bus.ErrDisconnected)
			return
		}
	}
	t.Error("the loss of NATS is not reported")
}

type closing struct {
	io.Reader
	closed chan struct{}
}

func (c closing) Close() error {
	c.closed <- struct{}{}
	return nil
}

// TestCancel checks that the handler's context ends at once when the caller gives up the response.
func TestCancel(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/begun" {
			_, _ = io.WriteString(w, "hello")
			w.(http.Flusher).Flush()
		}
		began <- struct{}{}
		<-r.Context().Done()
		_, err := w.Write(make([]byte, 1<<20))
		ended <- err
	})
	cause := errors.New("no more")
	for _, c := range []struct {
		name, path string
		body       io.Reader
		leave      func(cancel context.CancelCauseFunc, response *http.Response)
	}{
		{"before the response", "/", nil, nil},
		{"before the response, sending", "/", &endless{}, nil},
		{"within the response", "/begun", nil, func(cancel context.CancelCauseFunc, _ *http.Response) { cancel(cause) }},
		{"closing the response", "/begun", nil, func(_ context.CancelCauseFunc, response *http.Response) { _ = response.Body.Close() }},
		{"closing the response, sending", "/begun", &endless{}, func(_ context.CancelCauseFunc, response *http.Response) { _ = response.Body.Close() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			r := bushttptest.Request(t, "POST", "http://api"+c.path, c.body).WithContext(ctx)
			if c.leave == nil {
				go func() {
					<-began
					cancel(cause)
				}()
			}
			response, err := client.Do(r)
			if c.leave == nil {
				if !errors.Is(err, cause) {
					t.Errorf("got %v", err)
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				bushttptest.Receive(t, began, "the handler")
				buffer := make([]byte, 5)
				if _, err := io.ReadFull(response.Body, buffer); err != nil {
					t.Fatal(err)
				}
				c.leave(cancel, response)
				if _, err := response.Body.Read(buffer); err == nil {
					t.Error("read after the end")
				}
				_ = response.Body.Close()
			}
			if err := bushttptest.Receive(t, ended, "the handler's end"); err == nil {
				t.Error("wrote after the caller had gone")
			}
		})
	}
}

// endless is a body without an end.
type endless struct{}

func (*endless) Read(p []byte) (int, error) { return len(p), nil }

func TestTimeouts(t *testing.T) {
	client := bushttptest.Pair(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	client.Timeout = 50 * time.Millisecond
	response, err := client.Do(bushttptest.Request(t, "GET", "http://api/", nil))
	if err == nil {
		_ = response.Body.Close()
	}
	if !utilnet.IsTimeout(err) {
		t.Errorf("got %v", err)
	}
}

// TestBrokenAnswers checks that a caller never takes an aborted response for a complete one.
func TestBrokenAnswers(t *testing.T) {
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/panic":
			panic("oh")
		case "/abort":
			_, _ = io.WriteString(w, "some")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		case "/short":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "some")
		case "/shortflushed":
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "some")
			w.(http.Flusher).Flush()
		}
	})
	for path, begins := range map[string]bool{"/panic": false, "/abort": true, "/short": false, "/shortflushed": true} {
		t.Run(path, func(t *testing.T) {
			response, err := client.Do(bushttptest.Request(t, "GET", "http://api"+path, nil))
			if !begins {
				if !errors.Is(err, syscall.ECONNRESET) || !utilnet.IsConnectionReset(err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			data, err := io.ReadAll(response.Body)
			//nolint:errorlint // client-go compares.
			if string(data) != "some" || err != io.ErrUnexpectedEOF {
				t.Errorf("read %q, %v", data, err)
			}
			_ = response.Body.Close()
		})
	}
}

// TestSlowReader checks that a caller that does not read blocks only the writer of its own
// response.
func TestSlowReader(t *testing.T) {
	const size, slow = 8 << 20, 20
	var mu sync.Mutex
	wrote := map[string]int{}
	client := bushttptest.Pair(t, func(w http.ResponseWriter, r *http.Request) {
		part := make([]byte, 64<<10)
		for range size / len(part) {
			n, err := w.Write(part)
			if err != nil {
				return
			}
			mu.Lock()
			wrote[r.URL.Path] += n
			mu.Unlock()
		}
	})
	var answers []*http.Response
	for i := range slow {
		response, err := client.Do(bushttptest.Request(t, "GET", fmt.Sprintf("http://api/slow%d", i), nil))
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, response)
	}
	for range 3 {
		if _, data := bushttptest.Do(t, client, bushttptest.Request(t, "GET", "http://api/fast", nil)); len(data) != size {
			t.Errorf("got %d bytes", len(data))
		}
	}
	mu.Lock()
	for path, n := range wrote {
		// A buffered message, a message in flight, and the window.
		if strings.HasPrefix(path, "/slow") && n > 1<<20+512<<10 {
			t.Errorf("%d bytes were written to a caller of %s that does not read", n, path)
		}
	}
	mu.Unlock()
	for _, response := range answers {
		if n, err := io.Copy(io.Discard, response.Body); err != nil || n != size {
			t.Errorf("read %d bytes at the end: %v", n, err)
		}
		_ = response.Body.Close()
	}
}

func TestWriteDeadline(t *testing.T) {
	failed := make(chan error, 1)
	client := bushttptest.Pair(t, func(w http.ResponseWriter, _ *http.Request) {
		// Otherwise the deadline may pass before the response has begun, and there is none.
		w.(http.Flusher).Flush()
		control := http.NewResponseController(w)
		if err := control.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
			t.Error(err)
		}
		_, err := w.Write(make([]byte, 8<<20))
		failed <- err
	})
	response, err := client.Do(bushttptest.Request(t, "GET", "http://api/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := bushttptest.Receive(t, failed, "the deadline"); err == nil || !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "timeout") {
		t.Errorf("got %v", err)
	}
}
