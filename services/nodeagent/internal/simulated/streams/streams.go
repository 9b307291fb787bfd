// Package streams serves the sessions that a simulated runtime prepares: commands, attaching and forwarded
// ports. The server is the library of container runtimes.
package streams

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/cri-streaming/pkg/streaming"
)

// creating is how long a client may take to open the streams of its session. The library waits for them
// even if the client is gone, so this also bounds how long the end of a server can take.
const creating = 10 * time.Second

// Server serves sessions at a port of this machine. Many runtimes run in one process, so it opens the
// port only when the first session is prepared. Any goroutine may use it.
type Server struct {
	wanted chan struct{} // holds one element once a session has been prepared
	ready  chan struct{} // closed when server and err are set
	server streaming.Server
	err    error

	mu      sync.Mutex
	closed  bool
	working sync.WaitGroup
}

// New returns a Server, which does nothing before Run.
func New() *Server {
	return &Server{wanted: make(chan struct{}, 1), ready: make(chan struct{})}
}

// Sessions returns what prepares sessions, after opening the port if need be. It waits for Run. The error
// has a gRPC status.
func (s *Server) Sessions(ctx context.Context) (streaming.Server, error) {
	select {
	case s.wanted <- struct{}{}:
	default: // The port has been asked for.
	}
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if s.err != nil {
		return nil, status.Error(codes.Unavailable, s.err.Error())
	}
	return s.server, nil
}

// Run serves sessions, which runtime runs, until ctx ends. It returns when all of them have ended, and
// what they started with Go. Run may be called only once.
func (s *Server) Run(ctx context.Context, runtime streaming.Runtime) error {
	select {
	case <-s.wanted:
	case <-ctx.Done():
		return nil
	}
	listener, err := s.open(ctx, runtime)
	s.err = err
	close(s.ready)
	if err != nil {
		return err
	}
	server := &http.Server{
		Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute,
		BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: track,
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	err = server.Serve(trackedListener{listener})
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.working.Wait()
	if ctx.Err() == nil {
		return fmt.Errorf("serving streams: %w", err)
	}
	return nil
}

// open opens the port.
func (s *Server) open(ctx context.Context, runtime streaming.Runtime) (net.Listener, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a port for streams: %w", err)
	}
	cfg := streaming.DefaultConfig
	cfg.StreamCreationTimeout = creating
	cfg.BaseURL = &url.URL{Scheme: "http", Host: listener.Addr().String()}
	if s.server, err = streaming.NewServer(cfg, runtime); err != nil {
		return nil, errors.Join(fmt.Errorf("creating a server of streams: %w", err), listener.Close())
	}
	return listener, nil
}

// Go runs f in a goroutine that Run waits for; false if Run has ended. What f reads from a session ends
// with the session's connection, and those end with Run's context.
func (s *Server) Go(f func()) bool {
	if !s.begin() {
		return false
	}
	go func() {
		defer s.working.Done()
		f()
	}()
	return true
}

// begin counts what Run waits for; false if Run waits already.
func (s *Server) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.working.Add(1)
	return true
}

// serve serves a session.
func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	if !s.begin() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.working.Done()
	s.server.ServeHTTP(w, r)
}
