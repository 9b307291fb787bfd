package simulated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/garboard/garboard/libs/backoff"
)

// lingering is how long a pod may take to end a connection that the client has ended.
const lingering = time.Second

// PortForward prepares connections to a pod.
func (r *Runtime) PortForward(ctx context.Context, request *cri.PortForwardRequest) (*cri.PortForwardResponse, error) {
	if _, err := r.podAddress(request.GetPodSandboxId()); err != nil {
		return nil, err
	}
	server, err := r.streams.Sessions(ctx)
	if err != nil {
		return nil, err
	}
	return server.GetPortForward(request)
}

// PortForward connects a stream to a port of a pod, to what Dial connects to. It returns when the pod is
// done.
func (s *sessions) PortForward(_ context.Context, sandbox string, port int32, stream io.ReadWriteCloser) error {
	ended := make(chan error, 1)
	if !s.runtime.streams.Go(func() { ended <- s.forward(sandbox, port, stream) }) {
		return errSessionOver
	}
	return <-ended
}

func (s *sessions) forward(sandbox string, port int32, stream io.ReadWriteCloser) error {
	address, err := s.runtime.podAddress(sandbox)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	conn, err := s.runtime.Dial(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(int(port))))
	if err != nil {
		return fmt.Errorf("failed to execute portforward for sandbox %q: failed to connect to port %d inside its network: %w", sandbox, port, err)
	}
	defer func() { _ = conn.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	s.runtime.streams.Go(func() {
		_, _ = io.Copy(conn, stream)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
		backoff.Sleep(ctx, lingering)
		_ = conn.Close()
	})
	if _, err := io.Copy(stream, conn); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("copying from port %d of sandbox %q: %w", port, sandbox, err)
	}
	return nil
}

// podAddress returns the address of a sandbox that is ready: that of this machine if it has none of its
// own.
func (r *Runtime) podAddress(id string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[id]
	switch {
	case s == nil:
		return "", status.Errorf(codes.NotFound, "failed to find sandbox %q in store: not found", id)
	case !s.Ready:
		return "", status.Errorf(codes.Unknown, "sandbox container %q is not running", id)
	case !s.IP.IsValid():
		return "127.0.0.1", nil
	}
	return s.IP.String(), nil
}
