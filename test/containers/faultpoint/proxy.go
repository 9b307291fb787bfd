package faultpoint

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

// maxMessage bounds a message, in bytes, like the agent itself.
const maxMessage = 16 << 20

// Proxy forwards the calls of a node agent to a container runtime. It is safe for concurrent use.
type Proxy struct {
	socket  string
	backend *grpc.ClientConn
	// ended is closed when the proxy ends, which releases all held calls.
	ended chan struct{}

	// held counts calls that continue although their caller may have left.
	held sync.WaitGroup

	mu  sync.Mutex
	cut bool
	// severed is closed at the next Cut.
	severed chan struct{}
	trap    *Trap
	log     journal
	// listed is closed when the sandboxes are next listed.
	listed chan struct{}
}

// New starts a proxy in front of the runtime at endpoint, a unix socket ("unix:///…"). It ends with
// the test.
func New(t testing.TB, endpoint string) *Proxy {
	t.Helper()
	//nolint:usetesting // a socket's path must be short
	dir, err := os.MkdirTemp("", "faultpoint-")
	if err != nil {
		t.Fatalf("creating the folder of the proxy: %v", err)
	}
	p := &Proxy{
		socket: filepath.Join(dir, "cri.sock"), ended: make(chan struct{}), log: newJournal(), listed: make(chan struct{}),
		severed: make(chan struct{}),
	}
	p.backend, err = grpc.NewClient(endpoint, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"), grpc.WithIdleTimeout(0), grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(raw{}), grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)))
	if err != nil {
		t.Fatalf("connecting the proxy to %s: %v", endpoint, err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", p.socket)
	if err != nil {
		t.Fatalf("opening the proxy's socket: %v", err)
	}
	server := grpc.NewServer(grpc.ForceServerCodecV2(raw{}), grpc.UnknownServiceHandler(p.handle), grpc.WaitForHandlers(true),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		close(p.ended)
		server.Stop()
		p.held.Wait()
		if err := errors.Join(<-served, p.backend.Close(), os.RemoveAll(dir)); err != nil {
			t.Errorf("ending the proxy: %v", err)
		}
	})
	return p
}

// Endpoint returns the endpoint at which the proxy serves CRI.
func (p *Proxy) Endpoint() string { return "unix://" + p.socket }

// Cut refuses every call from now on, as if the agent had died: its further calls have no effect.
// The caller of a held call is refused too; the call itself stays held.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	close(p.severed)
	p.severed = make(chan struct{})
}

// Mend ends Cut.
func (p *Proxy) Mend() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
}

// Reconnect makes the proxy reconnect to a restarted runtime immediately.
func (p *Proxy) Reconnect() { p.backend.ResetConnectBackoff() }

// handle serves any method.
func (p *Proxy) handle(_ any, stream grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(stream)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	var request frame
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	kind, err := describe(method)
	if err != nil {
		return status.Error(codes.Unimplemented, err.Error())
	}
	if kind.IsStreamingServer() {
		return p.stream(stream, method, &request)
	}
	answer, err := p.call(stream.Context(), method, &request)
	if err != nil {
		return err
	}
	return stream.SendMsg(answer)
}

// stream forwards the runtime's stream, until either side ends it.
func (p *Proxy) stream(stream grpc.ServerStream, method string, request *frame) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	upstream, err := p.backend.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := errors.Join(upstream.SendMsg(request), upstream.CloseSend()); err != nil {
		return err
	}
	for {
		var message frame
		if err := upstream.RecvMsg(&message); err != nil {
			return err
		}
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
	}
}

// call forwards one call, and holds it where a trap is set.
func (p *Proxy) call(ctx context.Context, method string, request *frame) (*frame, error) {
	p.mu.Lock()
	if p.cut {
		p.mu.Unlock()
		return nil, status.Error(codes.Unavailable, "the agent is cut off")
	}
	point := p.log.arrived(method, request.data)
	trap := p.trap
	if trap == nil || trap.point != point || trap.sprung {
		trap = nil
	} else {
		trap.sprung = true
	}
	severed := p.severed
	p.mu.Unlock()
	if trap == nil {
		return p.forward(ctx, method, point, request)
	}
	// For a held call, a cut means that its caller leaves.
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	got := make(chan answer, 1)
	p.held.Go(func() {
		f, err := trap.hold(ctx, p, func(ctx context.Context) (*frame, error) { return p.forward(ctx, method, point, request) })
		got <- answer{f, err}
	})
	select {
	case a := <-got:
		return a.frame, a.err
	case <-severed:
		return nil, status.Error(codes.Unavailable, "the agent is cut off")
	}
}

// forward calls the runtime.
func (p *Proxy) forward(ctx context.Context, method string, point Point, request *frame) (*frame, error) {
	began := time.Now()
	answer := &frame{}
	err := p.backend.Invoke(ctx, method, request, answer)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.log.answered(method, point, request.data, answer.data, err, time.Since(began))
	if path.Base(method) == "ListPodSandbox" && err == nil {
		close(p.listed)
		p.listed = make(chan struct{})
	}
	return answer, err
}

// nextList returns a channel that is closed when the sandboxes are next listed, that is, when the
// agent has looked again.
func (p *Proxy) nextList() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.listed
}

// frame is a message in its wire format.
type frame struct{ data []byte }

// raw passes messages on without decoding them.
type raw struct{}

var _ encoding.CodecV2 = raw{}

func (raw) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("a %T is not a frame", v)
	}
	return mem.BufferSlice{mem.SliceBuffer(f.data)}, nil
}

func (raw) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("a %T is not a frame", v)
	}
	f.data = data.Materialize()
	return nil
}

func (raw) Name() string { return "proto" }
