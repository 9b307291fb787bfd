package simulated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// podKey is the key under which a connection's context has the address of the dialled pod.
type podKey struct{}

// Dial opens a connection to a pod of this runtime, for probes. Nothing listens at the pods'
// addresses, so the runtime answers for them on every port: over HTTP with the status in the
// annotation http-status (200 if absent), and over gRPC as healthy. A pod without a running
// container refuses the connection. Other addresses are dialled for real.
func (r *Runtime) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	target, err := netip.ParseAddrPort(address)
	if err != nil || !r.cfg.PodCIDR.Contains(target.Addr()) {
		var dialer net.Dialer
		return dialer.DialContext(ctx, network, address)
	}
	if !r.answers(target.Addr()) {
		return nil, &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(target), Err: syscall.ECONNREFUSED}
	}
	near, far := net.Pipe()
	select {
	case r.dialled <- &podConn{Conn: far, pod: target.Addr()}:
		return near, nil
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), near.Close(), far.Close())
	}
}

// answers reports whether a container runs in the pod with this address.
func (r *Runtime) answers(address netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settle(time.Now())
	s := r.sandboxAt(address)
	if s == nil {
		return false
	}
	for _, c := range r.containersOf(s.ID) {
		if c.State == cri.ContainerState_CONTAINER_RUNNING {
			return true
		}
	}
	return false
}

func (r *Runtime) sandboxAt(address netip.Addr) *sandbox {
	for _, s := range r.sandboxes {
		if s.IP == address {
			return s
		}
	}
	return nil
}

// serveHTTP responds for every pod.
func (r *Runtime) serveHTTP(w http.ResponseWriter, request *http.Request) {
	address, _ := request.Context().Value(podKey{}).(netip.Addr)
	r.mu.Lock()
	name, code := "", http.StatusOK
	if s := r.sandboxAt(address); s != nil {
		name = s.Config.M.GetMetadata().GetName()
		if text, ok := annotation(s.Config.M.GetAnnotations(), keyHTTPStatus, ""); ok {
			code, _ = strconv.Atoi(text) // RunPodSandbox has checked it
		}
	}
	r.mu.Unlock()
	w.WriteHeader(code)
	_, _ = fmt.Fprintf(w, "simulated pod %s: nothing runs\n", name)
}

// servePods answers for the pods until ctx ends.
func (r *Runtime) servePods(ctx context.Context) error {
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
			r.serveHTTP(w, request)
		}),
		Protocols:         protocols,
		ReadHeaderTimeout: time.Minute,
		IdleTimeout:       time.Minute,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			if c, ok := conn.(*podConn); ok {
				return context.WithValue(ctx, podKey{}, c.pod)
			}
			return ctx
		},
	}
	defer func() { _ = server.Close() }()
	if err := server.Serve(&podListener{ctx: ctx, dialled: r.dialled}); !errors.Is(err, http.ErrServerClosed) && ctx.Err() == nil {
		return fmt.Errorf("simulated runtime: answering for pods: %w", err)
	}
	return nil
}

// podConn is the far end of a connection to a pod.
type podConn struct {
	net.Conn
	pod netip.Addr
}

// podListener accepts the dialled connections.
type podListener struct {
	ctx     context.Context //nolint:containedctx // net.Listener has no other way to end
	dialled <-chan *podConn
}

func (l *podListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.dialled:
		return conn, nil
	case <-l.ctx.Done():
		return nil, io.EOF
	}
}

func (l *podListener) Close() error { return nil }

func (l *podListener) Addr() net.Addr { return &net.TCPAddr{} }
