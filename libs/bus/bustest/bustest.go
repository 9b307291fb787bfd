// Package bustest provides tests with a real NATS server on the loopback address.
package bustest

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/garboard/garboard/libs/bus"
	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/bus/embedded"
)

// patience is how long a server may take to start on a busy machine.
const patience = time.Minute

// authTimeout is longer than in production. On a busy machine clients are admitted late, and by
// then nats-server cannot handle the answer safely (it writes what it reads elsewhere).
const authTimeout = 8 * time.Second

// Server is a NATS server with JetStream that can be stopped and restarted at the same address with
// the same data.
type Server struct {
	t      testing.TB
	cfg    embedded.Config
	url    string
	srv    *embedded.Server
	cancel context.CancelFunc
	done   chan error
}

// NewServer starts a server that ends with the test.
func NewServer(t testing.TB) *Server {
	t.Helper()
	return NewServerWith(t, embedded.Config{})
}

// NewServerWith is NewServer with further settings. It sets the port and the storage directory
// itself, and AuthTimeout if that is 0.
func NewServerWith(t testing.TB, cfg embedded.Config) *Server {
	t.Helper()
	cfg.Port, cfg.StoreDir, cfg.AuthTimeout = holdPort(t), t.TempDir(), cmp.Or(cfg.AuthTimeout, authTimeout)
	s := &Server{t: t, cfg: cfg}
	s.Start()
	t.Cleanup(s.Stop)
	return s
}

// Start starts the server again after Stop.
func (s *Server) Start() {
	s.t.Helper()
	s.begin()
	s.await()
}

// begin starts the server without waiting for it.
func (s *Server) begin() {
	s.t.Helper()
	srv, err := embedded.New(s.cfg)
	if err != nil {
		s.t.Fatalf("creating a NATS server: %v", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	s.srv, s.cancel, s.done = srv, cancel, make(chan error, 1)
	go func() { s.done <- srv.Run(ctx) }()
}

// await waits for the server.
func (s *Server) await() {
	s.t.Helper()
	wait, stop := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer stop()
	if err := s.srv.Ready(wait); err != nil {
		s.t.Fatalf("starting a NATS server: %v", err)
	}
	s.url = s.srv.URL()
}

// Stop stops the server but keeps its data. It does nothing if the server is stopped.
func (s *Server) Stop() {
	s.t.Helper()
	if s.cancel == nil {
		return
	}
	s.cancel()
	s.cancel = nil
	if err := <-s.done; err != nil {
		s.t.Errorf("running a NATS server: %v", err)
	}
}

// Config returns the configuration of a connection to the server.
func (s *Server) Config() bus.Config {
	return bus.Config{URLs: []string{s.url}, Name: s.t.Name()}
}

// Connect opens a connection that ends with the test.
func (s *Server) Connect() *bus.Conn {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c, err := bus.Connect(ctx, s.Config())
	if err != nil {
		s.t.Fatalf("connecting to the test's NATS server: %v", err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// NewKeys generates keys of apiservers and their public halves for a server.
func NewKeys(t testing.TB) (*callout.Keys, *callout.Auth) {
	t.Helper()
	issuer, err := callout.NewIssuer()
	if err != nil {
		t.Fatal(err)
	}
	user, err := callout.NewUser()
	if err != nil {
		t.Fatal(err)
	}
	keys, err := callout.ParseKeys(issuer, user)
	if err != nil {
		t.Fatal(err)
	}
	return keys, keys.Auth()
}

// ConnectAs opens a connection with the credentials in cfg; it ends with the test.
func (s *Server) ConnectAs(cfg bus.Config) *bus.Conn {
	s.t.Helper()
	cfg.URLs = []string{s.url}
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	c, err := bus.Connect(ctx, cfg)
	if err != nil {
		s.t.Fatalf("connecting to the test's NATS server as %s: %v", cfg.Name, err)
	}
	s.t.Cleanup(c.Close)
	return c
}

// New starts a server and connects to it; both end with the test.
func New(t testing.TB) *bus.Conn {
	t.Helper()
	return NewServer(t).Connect()
}
