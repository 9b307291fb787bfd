package client

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// fleet is a group of apiservers with a handler each.
type fleet struct {
	t       *testing.T
	servers []*httptest.Server
	asked   []atomic.Int64 // requests other than health probes
	handle  []atomic.Value // of func(http.ResponseWriter, *http.Request)
}

type handler = func(w http.ResponseWriter, r *http.Request)

func named(name string) handler {
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s", name, r.Method, body)
	}
}

func refusing(code int, text string) handler {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		http.Error(w, text, code)
	}
}

// cutting reads a request and closes the connection.
func cutting(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.ReadAll(r.Body)
	panic(http.ErrAbortHandler)
}

func newFleet(t *testing.T, handlers ...handler) *fleet {
	f := &fleet{t: t, asked: make([]atomic.Int64, len(handlers)), handle: make([]atomic.Value, len(handlers))}
	for i, h := range handlers {
		f.handle[i].Store(h)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				f.asked[i].Add(1)
			}
			f.handle[i].Load().(handler)(w, r)
		}))
		server.EnableHTTP2 = true
		server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
		server.StartTLS()
		t.Cleanup(server.Close)
		f.servers = append(f.servers, server)
	}
	return f
}

// client returns a client that prefers the servers in order.
func (f *fleet) client(more ...string) *http.Client {
	f.t.Helper()
	var list []*apiserver
	for _, host := range more {
		list = append(list, &apiserver{host: host})
	}
	ca := []byte{}
	for _, server := range f.servers {
		list = append(list, &apiserver{host: server.Listener.Addr().String()})
		ca = append(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})...)
	}
	config, end, err := failover(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: ca}}, list, slog.New(slog.NewTextHandler(f.t.Output(), nil)))
	if err != nil {
		f.t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { end(); client.CloseIdleConnections() })
	return client
}

func (f *fleet) do(client *http.Client, method string) (string, error) {
	f.t.Helper()
	var body io.Reader
	if method != http.MethodGet {
		body = strings.NewReader("body")
	}
	r, err := http.NewRequestWithContext(f.t.Context(), method, "https://127.0.0.1:1/api", body)
	if err != nil {
		f.t.Fatal(err)
	}
	answer, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return fmt.Sprintf("%d %s", answer.StatusCode, strings.TrimSpace(string(text))), err
	}
	return string(text), err
}

func TestFailover(t *testing.T) {
	const starting, ending = "The apiserver hasn't been fully initialized yet, please try again later.", "The apiserver is shutting down, please try again later."
	for name, c := range map[string]struct {
		first handler
		// get and post are the responses; empty for an error. posts counts how often each server
		// got the POST.
		get, post string
		posts     [2]int64
	}{
		"works":         {named("a"), "a GET ", "a POST body", [2]int64{1, 0}},
		"starts":        {refusing(503, starting), "b GET ", "b POST body", [2]int64{0, 1}},
		"shuts down":    {refusing(429, ending), "b GET ", "b POST body", [2]int64{0, 1}},
		"is overloaded": {refusing(429, "Too many requests"), "429 Too many requests", "429 Too many requests", [2]int64{1, 0}},
		"has no etcd":   {refusing(503, "etcd is away"), "503 etcd is away", "503 etcd is away", [2]int64{1, 0}},
		"fails":         {refusing(500, "oh"), "500 oh", "500 oh", [2]int64{1, 0}},
		"cuts":          {cutting, "b GET ", "", [2]int64{1, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, c.first, named("b"))
			if got, err := f.do(f.client(), http.MethodGet); got != c.get {
				t.Errorf("GET: %q, %v, want %q", got, err, c.get)
			}
			before := [2]int64{f.asked[0].Load(), f.asked[1].Load()}
			// Another client, which has no knowledge yet.
			got, err := f.do(f.client(), http.MethodPost)
			if got != c.post || (err != nil) != (c.post == "") {
				t.Errorf("POST: %q, %v, want %q", got, err, c.post)
			}
			posts := [2]int64{f.asked[0].Load() - before[0], f.asked[1].Load() - before[1]}
			if strings.HasPrefix(c.post, "b") {
				posts[0] = 0 // It was asked, but did not execute it.
			}
			if posts != c.posts {
				t.Errorf("posts: %v, want %v", posts, c.posts)
			}
		})
	}
}

// freePort returns an address with no listener.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func TestFailoverFromUnreachableServer(t *testing.T) {
	f := newFleet(t, named("a"))
	client := f.client(freePort(t), freePort(t))
	for range 3 {
		if got, err := f.do(client, http.MethodPost); got != "a POST body" {
			t.Errorf("%q, %v", got, err)
		}
	}
	alone := newFleet(t)
	host := freePort(t)
	if _, err := alone.do(alone.client(host), http.MethodPost); err == nil || !strings.Contains(err.Error(), "apiserver "+host) {
		t.Errorf("without a server: %v", err)
	}
}

// TestFailoverFromSilence: one server accepts connections and stays silent, as a stopped process
// does; another one is slow, but healthy.
func TestFailoverFromSilence(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	f := newFleet(t, named("a"))
	client := f.client(listener.Addr().String())
	// Nothing was sent, so even a POST moves to another server.
	if got, err := f.do(client, http.MethodPost); got != "a POST body" {
		t.Errorf("%q, %v", got, err)
	}

	release := make(chan struct{})
	var wait, paused atomic.Bool
	slow := newFleet(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz" && paused.Load(), r.URL.Path != "/readyz" && wait.Load():
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		named("slow")(w, r)
	}, named("b"))
	client = slow.client()
	wait.Store(true)
	answers := make(chan string, 1)
	go func() {
		got, err := slow.do(client, http.MethodPost)
		answers <- fmt.Sprint(got, err)
	}()
	select {
	case got := <-answers:
		t.Errorf("a healthy server was given up: %q", got)
	case <-time.After(failoverPatience + failoverProbe + time.Second):
	}
	close(release)
	if got := <-answers; got != "slow POST body<nil>" {
		t.Errorf("from a healthy server: %q", got)
	}

	release = make(chan struct{})
	defer func() { close(release) }()
	paused.Store(true)
	// This POST may have been executed and is not repeated; the next request goes to another
	// server.
	if got, err := slow.do(client, http.MethodPost); err == nil || !strings.Contains(err.Error(), errSilent.Error()) {
		t.Errorf("from a stopped server: %q, %v", got, err)
	}
	if got, err := slow.do(client, http.MethodPost); got != "b POST body" {
		t.Errorf("after that: %q, %v", got, err)
	}
}

// TestFailoverComesBack checks that a failed server is used again once it is healthy, and that a
// watch opened on another server stays there.
func TestFailoverComesBack(t *testing.T) {
	events := make(chan string)
	watching := func(w http.ResponseWriter, r *http.Request) {
		if !r.URL.Query().Has("watch") {
			named("b")(w, r)
			return
		}
		w.WriteHeader(http.StatusOK)
		for {
			_ = http.NewResponseController(w).Flush()
			select {
			case event := <-events:
				_, _ = io.WriteString(w, event)
			case <-r.Context().Done():
				return
			}
		}
	}
	f := newFleet(t, refusing(503, "The apiserver hasn't been fully initialized yet"), watching)
	client := f.client()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://127.0.0.1:1/api?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	watch, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = watch.Body.Close() }()
	f.handle[0].Store(named("a"))
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := f.do(client, http.MethodPost)
		if got == "a POST body" {
			break
		}
		if err != nil || got != "b POST body" || time.Now().After(deadline) {
			t.Fatalf("%q, %v", got, err)
		}
		<-tick.C
	}
	events <- "news"
	buffer := make([]byte, 10)
	if n, err := watch.Body.Read(buffer); string(buffer[:n]) != "news" {
		t.Errorf("the watch read %q, %v", buffer[:n], err)
	}
}

func TestFailoverAddresses(t *testing.T) {
	for server, want := range map[string]string{
		"https://a:6443": "", "https://a": "", "https://[::1]:6443/": "", " https://a ": "",
		"http://a:6443": "is not https://HOST:PORT", "a:6443": "apiserver's address", "https://": "is not https", "https://a/b": "more than", "https://u@a": "more than",
	} {
		_, end, err := Failover(&rest.Config{}, []string{server}, nil)
		if want == "" && err == nil {
			end()
			continue
		}
		if want == "" || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", server, err, want)
		}
	}
	if _, _, err := Failover(&rest.Config{}, nil, nil); err == nil {
		t.Error("an empty list of servers is accepted")
	}
	first := map[string]int{}
	for range 200 {
		config, end, err := Failover(&rest.Config{}, []string{"https://a", "https://b", "https://c"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		end()
		first[config.Host]++
	}
	if len(first) != 3 || first["https://a:443"] > 120 {
		t.Errorf("first servers of the clients: %v", first)
	}
}

// TestFailuresLengthenTheWait checks the times until a server that fails again and again is retried.
func TestFailuresLengthenTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &apiserver{host: "a:6443"}
		s := &apiservers{log: slog.New(slog.DiscardHandler), list: []*apiserver{server}}
		for _, seconds := range []time.Duration{1, 2, 4, 8, 16, 30, 30} {
			s.failed(server, io.EOF)
			if got, longest := time.Until(server.until), seconds*time.Second; got < longest/2 || got > longest {
				t.Errorf("after %d failures the server is retried in %v, want between %v and %v", server.failures, got, longest/2, longest)
			}
		}
		s.well(server)
		s.failed(server, io.EOF)
		if got := time.Until(server.until); got > time.Second {
			t.Errorf("after an answer and a failure the server is retried in %v, want within a second", got)
		}
	})
}
