package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/garboard/garboard/libs/lifecycle"
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
	// streamBuffer is how many bytes a client may send of a body before they are read. It is Kubernetes': 99 of 100
	// bodies are smaller. What a refused request has sent must still be decrypted.
	streamBuffer = 256 << 10
	// stallTimeout is how long an HTTP/2 connection may accept none of the bytes to be sent. Such a
	// connection cannot carry the end of a stream either, so expired requests would last as long as
	// it does.
	stallTimeout = 30 * time.Second
)

// front is the HTTPS server. It listens from the start, so that a client that comes too early gets
// a response.
type front struct {
	server   *http.Server
	listener net.Listener
	tunnels  *tunnels
	end      context.CancelFunc // cancels the requests
}

// listen opens the port and creates the HTTPS server. Nothing is served before the gate is opened.
func (p *plane) listen(ctx context.Context) (err error) {
	listener := p.cfg.Serving.Listener
	defer func() {
		if err != nil && listener != nil {
			_ = listener.Close()
		}
	}()
	if err := p.cfg.Load(); err != nil {
		return err
	}
	if listener == nil {
		if listener, err = new(net.ListenConfig).Listen(ctx, "tcp", p.cfg.Serving.Listen); err != nil {
			return fmt.Errorf("listening on %s: %w", p.cfg.Serving.Listen, err)
		}
	}
	if p.keys, err = p.keysFor(listener.Addr()); err != nil {
		return err
	}
	p.address = p.cfg.Serving.External(listener.Addr())
	p.front = p.newFront(ctx, p.keys, listener)
	return nil
}

func (p *plane) newFront(ctx context.Context, keys *pki.Keys, listener net.Listener) *front {
	// Requests outlive ctx: they may finish.
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	stall := stallTimeout
	if p.cfg.Limits.RequestTimeout > 0 {
		stall = min(stall, p.cfg.Limits.RequestTimeout)
	}
	return &front{listener: listener, tunnels: newTunnels(), end: end, server: &http.Server{
		Handler:           p.gate,
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		BaseContext:       func(net.Listener) context.Context { return life },
		ErrorLog:          slog.NewLogLogger(p.cfg.Logger.Handler(), slog.LevelDebug),
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams, MaxReceiveBufferPerStream: streamBuffer, WriteByteTimeout: stall,
		},
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: keys.Certificate,
			// The client certificate is verified when the request is authenticated, so that a wrong
			// one leads to a response with Unauthorized.
			ClientAuth: tls.RequestClientCert,
		},
	}}
}

// run accepts connections until ctx ends, and then closes what is left of them.
func (f *front) run(ctx context.Context) error {
	served, tunneled := make(chan error, 1), make(chan struct{})
	go func() { served <- f.server.ServeTLS(f.listener, "", "") }()
	go func() {
		defer close(tunneled)
		_ = f.server.ServeTLS(f.tunnels, "", "") // It ends with the server, whose end is reported below.
	}()
	var err error
	select {
	case err = <-served:
		if errors.Is(err, http.ErrServerClosed) { // The last requests are finishing.
			<-ctx.Done()
		}
	case <-ctx.Done():
	}
	f.end()
	closed := f.server.Close()
	<-tunneled // The server has closed its listener.
	if err == nil {
		err = <-served
	}
	if !errors.Is(err, http.ErrServerClosed) {
		return errors.Join(fmt.Errorf("serving the API: %w", err), closed)
	}
	if closed != nil {
		return fmt.Errorf("ending the HTTPS server: %w", closed)
	}
	return nil
}

// begin lets requests through.
func (p *plane) begin(context.Context) error {
	p.gate.Open(p.handler)
	p.cfg.Logger.Info("serving the API", "address", p.front.listener.Addr().String())
	return nil
}

// finish refuses new requests over HTTPS, ends the watches, and lets the other requests finish. It
// is cut short when ctx ends, since nothing can be served after that.
func (p *plane) finish(ctx context.Context) error {
	p.gate.Refuse()
	patience, cancel := context.WithTimeout(ctx, p.cfg.Serving.ShutdownWatchGrace+drainTimeout)
	defer cancel()
	shut := make(chan error, 1)
	// Shutdown at once stops accepting connections and tells clients to leave.
	go func() { shut <- p.front.server.Shutdown(patience) }()
	watches := p.gate.EndWatches(patience, p.cfg.Serving.ShutdownWatchGrace)
	p.cfg.Logger.Info("watches have ended", "watches", watches)
	if err := <-shut; err != nil {
		p.cfg.Logger.Warn("requests were cut off at shutdown", "err", err)
	}
	return nil
}

// shutdownDelay returns the stage whose end waits until load balancers have noticed the shutdown.
func (p *plane) shutdownDelay() lifecycle.Stage {
	if p.cfg.Serving.ShutdownDelay == 0 {
		return lifecycle.Stage{}
	}
	return lifecycle.Stage{Name: "shutdown delay", End: func(ctx context.Context) error {
		timer := time.NewTimer(p.cfg.Serving.ShutdownDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		return nil
	}}
}

// serveNATS serves requests that come over NATS. From the moment the shutdown is announced, NATS
// sends no more requests here. It has other servers to send them to, and needs no delay to learn of
// the shutdown; those in flight finish while HTTPS is still served.
func (p *plane) serveNATS(ctx context.Context) error {
	accepting, stop := context.WithCancel(ctx)
	var announced sync.WaitGroup
	announced.Go(func() {
		select {
		case <-p.gate.Announced():
			stop()
		case <-accepting.Done():
		}
	})
	defer func() { stop(); announced.Wait() }()
	if err := p.link.Serve(accepting, p.handler, p.cfg.Serving.ShutdownDelay+p.cfg.Serving.ShutdownWatchGrace+drainTimeout); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
