package callout_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/callout"
)

// TestSessionEndsWithItsConnection checks that a session with a node, such as that of exec, ends on both sides
// once the node's credential is revoked and its connection was ended for that.
func TestSessionEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	p := start(t)
	defer p.serve()()
	const patience = 5 * time.Second
	agent := p.server.ConnectAs(bus.Config{Name: "agent", Token: "node-n1"})
	apiserver := p.server.ConnectAs(bus.Config{Name: "apiserver", Seed: p.keys.UserSeed()})
	system := p.server.ConnectAs(bus.Config{Name: "system", Seed: p.keys.SystemSeed()})

	atNode := make(chan error, 1)
	run(t, func(ctx context.Context) error {
		return serve.New(serve.Config{Conn: agent, Node: "n1", Patience: patience, Handler: echo(t, atNode)}).Run(ctx)
	})
	node, err := bushttp.New(t.Context(), bushttp.Config{Conn: apiserver, Node: "n1", Patience: patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	session := open(t, node)
	if _, err := io.WriteString(session, "hello"); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(io.LimitReader(session, 5)); string(got) != "hello" || err != nil {
		t.Fatalf("read %q, %v", got, err)
	}

	revoked := "node-n1"
	p.revoked.Store(&revoked)
	run(t, func(ctx context.Context) error {
		return callout.Evict(ctx, callout.EvictConfig{Conn: system, Every: 50 * time.Millisecond, Check: func(_ context.Context, identity string) error {
			if identity == revoked {
				return errors.New("revoked")
			}
			return nil
		}})
	})
	atCaller := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, session)
		atCaller <- err
	}()
	for side, ended := range map[string]chan error{"node": atNode, "caller": atCaller} {
		select {
		case err := <-ended:
			if err == nil {
				t.Errorf("the %s takes it for the regular end", side)
			}
		case <-time.After(deadline):
			t.Fatalf("the session does not end at the %s", side)
		}
	}
	if agent.Connected() {
		t.Error("the node is connected again")
	}
}

// TestBusySessionsEndWithinAMinute checks that sessions which carry data, among many connections, end within a minute
// after the node's credential is revoked, with the pauses that apiservers make between two looks.
func TestBusySessionsEndWithinAMinute(t *testing.T) {
	t.Parallel()
	const crowd, sessions, rhythm = 200, 16, 50 * time.Millisecond
	p := start(t)
	defer p.serve()()
	for range crowd {
		p.server.ConnectAs(bus.Config{Name: "crowd", Token: "crowd"})
	}
	agent := p.server.ConnectAs(bus.Config{Name: "agent", Token: "node-n1"})
	apiserver := p.server.ConnectAs(bus.Config{Name: "apiserver", Seed: p.keys.UserSeed()})
	system := p.server.ConnectAs(bus.Config{Name: "system", Seed: p.keys.SystemSeed()})
	ended := make(chan error, 2*sessions)
	run(t, func(ctx context.Context) error {
		return serve.New(serve.Config{Conn: agent, Node: "n1", Handler: echo(t, ended)}).Run(ctx)
	})
	node, err := bushttp.New(t.Context(), bushttp.Config{Conn: apiserver, Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(node.Close)
	var carried atomic.Int64
	for range sessions {
		session := open(t, node)
		go func() {
			n, err := io.Copy(io.Discard, session)
			carried.Add(n)
			ended <- err
		}()
		go func() {
			beat := time.NewTicker(rhythm)
			defer beat.Stop()
			for data := make([]byte, 16<<10); ; <-beat.C {
				if _, err := session.Write(data); err != nil {
					return
				}
			}
		}()
	}
	var revoked atomic.Bool
	run(t, func(ctx context.Context) error {
		return callout.Evict(ctx, callout.EvictConfig{Conn: system, Check: func(_ context.Context, identity string) error {
			if identity == "node-n1" && revoked.Load() {
				return errors.New("revoked")
			}
			return nil
		}})
	})
	<-time.After(time.Second) // The first look finds nothing.
	user := "node-n1"
	p.revoked.Store(&user)
	revoked.Store(true)
	began := time.Now()
	for range 2 * sessions {
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a session ends as if it were complete")
			}
		case <-time.After(time.Minute - time.Since(began)):
			t.Fatal("sessions go on for more than a minute")
		}
	}
	if got := carried.Load(); got < sessions<<20 {
		t.Errorf("the sessions carried only %d bytes", got)
	}
	t.Logf("the last session ended after %v; they carried %d MiB", time.Since(began), carried.Load()>>20)
}

// echo returns the handler of a node that answers an upgrade with what it reads, and sends how each session ended.
func echo(t *testing.T, ended chan<- error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "test")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close() }()
		_, err = io.Copy(conn, conn)
		ended <- err
	})
}

// open upgrades a connection to a node, once its server has subscribed. It ends with the test.
func open(t *testing.T, node *bushttp.Transport) bushttp.Conn {
	t.Helper()
	for began := time.Now(); ; {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://node/exec", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "test")
		response, err := node.RoundTrip(request)
		if errors.Is(err, bushttp.ErrNoServer) && time.Since(began) < deadline {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		conn, ok := response.Body.(bushttp.Conn)
		if !ok {
			t.Fatalf("the response is %s", response.Status)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
}

// run runs what returns once its context ends, until the test ends.
func run(t *testing.T, what func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- what(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
