// Package podserver answers for simulated pods, in which nothing listens, on every port: over HTTP with a status
// that the pod chooses, and over gRPC as healthy.
package podserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

// Server answers for all pods of a runtime. Any goroutine may use it.
type Server struct {
	// about returns the name of the pod with an address, and the status that it answers with.
	about   func(pod netip.Addr) (name string, code int)
	dialled chan *conn
}

// conn is the far end of a connection to a pod.
type conn struct {
	net.Conn
	pod netip.Addr
}

// New returns a server, which answers while Run runs. about returns the name of the pod with an address, and the
// HTTP status that it answers with.
func New(about func(pod netip.Addr) (name string, code int)) *Server {
	return &Server{about: about, dialled: make(chan *conn)}
}

// Dial opens a connection to a pod.
func (s *Server) Dial(ctx context.Context, pod netip.Addr) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case s.dialled <- &conn{Conn: far, pod: pod}:
		return near, nil
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), near.Close(), far.Close())
	}
}

// podKey is the key under which a connection's context has the address of the dialled pod.
type podKey struct{}

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	checks := health.NewServer()
	services := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error { return nil }))
	healthpb.RegisterHealthServer(services, checks)
	defer services.Stop()
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	server := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
			if request.ProtoMajor == 2 && strings.HasPrefix(request.Header.Get("Content-Type"), "application/grpc") {
				services.ServeHTTP(w, request)
				return
			}
			s.answer(w, request)
		}),
		Protocols:         protocols,
		ReadHeaderTimeout: time.Minute,
		IdleTimeout:       time.Minute,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			if own, ok := c.(*conn); ok {
				return context.WithValue(ctx, podKey{}, own.pod)
			}
			return ctx
		},
	}
	defer func() { _ = server.Close() }()
	if err := server.Serve(&listener{ctx: ctx, dialled: s.dialled}); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		return fmt.Errorf("simulated runtime: answering for pods: %w", err)
	}
	return nil
}

// answer responds over HTTP.
func (s *Server) answer(w http.ResponseWriter, request *http.Request) {
	pod, _ := request.Context().Value(podKey{}).(netip.Addr)
	name, code := s.about(pod)
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "simulated pod %s: nothing runs\n", name)
}

// listener accepts the dialled connections.
type listener struct {
	ctx     context.Context //nolint:containedctx // net.Listener has no other way to end
	dialled <-chan *conn
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialled:
		return conn, nil
	case <-l.ctx.Done():
		return nil, io.EOF
	}
}

func (l *listener) Close() error { return nil }

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }
