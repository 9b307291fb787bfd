package apiserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/garboard/garboard/libs/shutdown"
	"github.com/garboard/garboard/services/apiserver/internal/server/drain"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
)

const (
	// drainTimeout is how long requests in flight may take when the server shuts down.
	drainTimeout = 15 * time.Second
	// headerTimeout is how long a client may take to send a request's header.
	headerTimeout = 30 * time.Second
	// idleTimeout is how long a connection may be idle; longer than clients keep one.
	idleTimeout = 3 * time.Minute
	// maxStreams is how many requests and watches may share an HTTP/2 connection.
	maxStreams = 1000
	// stallTimeout is how long an HTTP/2 connection may accept none of the bytes to be sent. Such a
	// connection cannot carry the end of a stream either, so expired requests would last as long as
	// it does.
	stallTimeout = 30 * time.Second
)

// front is the HTTPS server. It listens from the start, so that a client that comes too early gets
// a response.
type front struct {
	gate     *drain.Gate
	server   *http.Server
	listener net.Listener
	served   chan error
	end      context.CancelFunc // cancels the requests
}

// newFront listens; nothing is served before the gate is opened. The caller must call close.
func (s *Server) newFront(ctx context.Context, keys *pki.Keys, listener net.Listener) *front {
	// Requests outlive ctx: they may finish.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	gate := drain.New()
	stall := stallTimeout
	if s.cfg.RequestTimeout > 0 {
		stall = min(stall, s.cfg.RequestTimeout)
	}
	f := &front{gate: gate, listener: listener, served: make(chan error, 1), end: end, server: &http.Server{
		Handler:           gate,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return life },
		ErrorLog:          slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: maxStreams, WriteByteTimeout: stall},
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: keys.Certificate,
			// The client certificate is verified when the request is authenticated, so that a wrong
			// one leads to a response with Unauthorized.
			ClientAuth: tls.RequestClientCert,
		},
	}}
	go func() { f.served <- f.server.ServeTLS(listener, "", "") }()
	return f
}

// close closes the server and what is left of its connections.
func (f *front) close() error {
	f.end()
	err := f.server.Close()
	served := <-f.served
	f.served <- served // for a second call of close
	if !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	if err != nil {
		return fmt.Errorf("ending the HTTPS server: %w", err)
	}
	return nil
}

// serve serves requests over HTTPS and over NATS until ctx ends, and then shuts down in order.
func (s *Server) serve(ctx, inner context.Context, plane *plane, handler http.Handler, front *front, steps *shutdown.Steps) error {
	group, ctx := errgroup.WithContext(ctx)
	// From the moment ctx ends, NATS sends no more requests here. It has other servers to send them
	// to, and needs no delay to learn of the shutdown.
	group.Go(func() error {
		return plane.serveBus(ctx, handler, s.cfg.ShutdownDelay+s.cfg.ShutdownWatchGrace+drainTimeout)
	})
	group.Go(func() error {
		front.gate.Open(handler)
		close(s.ready)
		s.cfg.Logger.Info("serving the API", "address", front.listener.Addr().String())
		select {
		case err := <-front.served:
			front.served <- err
			return fmt.Errorf("serving the API: %w", err)
		case <-ctx.Done():
		}
		steps.Done("serving")
		s.drain(inner, plane, front, steps)
		return nil
	})
	err := group.Wait()
	steps.Done("requests over NATS finished")
	return err
}

// drain shuts down serving over HTTPS step by step. It is cut short when ctx ends, since nothing
// can be served after that.
func (s *Server) drain(ctx context.Context, plane *plane, front *front, steps *shutdown.Steps) {
	front.gate.Announce()
	plane.members.Leave(ctx)
	steps.Done("no longer ready, and removed from the kubernetes Service")
	if s.cfg.ShutdownDelay > 0 {
		wait(ctx, s.cfg.ShutdownDelay)
		steps.Done("shutdown delay over")
	}
	front.gate.Refuse()
	patience, cancel := context.WithTimeout(ctx, s.cfg.ShutdownWatchGrace+drainTimeout)
	defer cancel()
	shut := make(chan error, 1)
	// Shutdown at once stops accepting connections and tells clients to leave.
	go func() { shut <- front.server.Shutdown(patience) }()
	watches := front.gate.EndWatches(patience, s.cfg.ShutdownWatchGrace)
	steps.Done("watches ended", "watches", watches)
	if err := <-shut; err != nil {
		s.cfg.Logger.Warn("requests were cut off at shutdown", "err", err)
	}
	steps.Done("requests over HTTPS finished")
}

func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
