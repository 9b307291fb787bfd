package simulated

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// serve runs a runtime until stop is called or the test ends.
func serve(t *testing.T, r *Runtime) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = func() {
		if ctx.Err() != nil {
			return
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}

// TestOnePort checks that a runtime serves all sessions at one port, until it ends.
func TestOnePort(t *testing.T) {
	r := create(t, config(t.TempDir()))
	stop := serve(t, r)
	_, id := start(t, r, pod("a", nil))
	hosts := map[string]bool{}
	for range 3 {
		answer, err := r.Exec(t.Context(), &cri.ExecRequest{ContainerId: id, Cmd: []string{"true"}, Stdout: true})
		if err != nil {
			t.Fatal(err)
		}
		location, err := url.Parse(answer.GetUrl())
		if err != nil || location.Hostname() != "127.0.0.1" {
			t.Fatalf("the session is at %s, %v", answer.GetUrl(), err)
		}
		hosts[location.Host] = true
	}
	if len(hosts) != 1 {
		t.Errorf("the sessions are at %v", hosts)
	}
	stop()
	var dialer net.Dialer
	for host := range hosts {
		if conn, err := dialer.DialContext(t.Context(), "tcp", host); err == nil {
			_ = conn.Close()
			t.Error("the port is still open after the end of the runtime")
		}
	}
}

// TestPreparingRefuses checks the errors of the calls that prepare sessions.
func TestPreparingRefuses(t *testing.T) {
	r := create(t, config(t.TempDir()))
	serve(t, r)
	sandbox, id := start(t, r, pod("a", nil))
	ended, dead := start(t, r, pod("b", nil))
	if _, err := r.StopPodSandbox(t.Context(), &cri.StopPodSandboxRequest{PodSandboxId: ended}); err != nil {
		t.Fatal(err)
	}
	exec := func(request *cri.ExecRequest) error { _, err := r.Exec(t.Context(), request); return err }
	attach := func(request *cri.AttachRequest) error { _, err := r.Attach(t.Context(), request); return err }
	forward := func(request *cri.PortForwardRequest) error { _, err := r.PortForward(t.Context(), request); return err }
	for _, test := range []struct {
		name string
		err  error
		code codes.Code
		text string
	}{
		{"command in no container", exec(&cri.ExecRequest{ContainerId: "x", Cmd: []string{"a"}, Stdout: true}), codes.NotFound, `container "x": not found`},
		{"command in an ended container", exec(&cri.ExecRequest{ContainerId: dead, Cmd: []string{"a"}, Stdout: true}), codes.Unknown, "container is in CONTAINER_EXITED state"},
		{"no command", exec(&cri.ExecRequest{ContainerId: id, Stdout: true}), codes.InvalidArgument, "no command"},
		{"command without streams", exec(&cri.ExecRequest{ContainerId: id, Cmd: []string{"a"}}), codes.InvalidArgument, "one of stdin, stdout, or stderr must be set"},
		{"attaching to no container", attach(&cri.AttachRequest{ContainerId: "x", Stdout: true}), codes.NotFound, "not found"},
		{"attaching to an ended container", attach(&cri.AttachRequest{ContainerId: dead, Stdout: true}), codes.Unknown, "EXITED"},
		{"attaching to two outputs of a terminal", attach(&cri.AttachRequest{ContainerId: id, Stderr: true, Tty: true}), codes.InvalidArgument, "tty and stderr"},
		{"ports of no sandbox", forward(&cri.PortForwardRequest{PodSandboxId: "x"}), codes.NotFound, "not found"},
		{"ports of an ended sandbox", forward(&cri.PortForwardRequest{PodSandboxId: ended}), codes.Unknown, "is not running"},
		{"ports", forward(&cri.PortForwardRequest{PodSandboxId: sandbox}), codes.OK, ""},
	} {
		if status.Code(test.err) != test.code || test.text != "" && !strings.Contains(test.err.Error(), test.text) {
			t.Errorf("%s: %v", test.name, test.err)
		}
	}
	still := create(t, config(t.TempDir()))
	_, id = start(t, still, pod("a", nil))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := still.Exec(ctx, &cri.ExecRequest{ContainerId: id, Cmd: []string{"a"}, Stdout: true}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a runtime that does not run: %v", err)
	}
}

// TestRuntimeEndsSessions checks that the end of a runtime ends a command and a forwarded connection.
func TestRuntimeEndsSessions(t *testing.T) {
	r := create(t, config(t.TempDir()))
	stop := serve(t, r)
	sandbox, id := start(t, r, pod("a", nil))
	prepared, err := r.Exec(t.Context(), &cri.ExecRequest{ContainerId: id, Cmd: []string{"sh", "-c", "echo ready; cat"}, Stdin: true, Stdout: true})
	if err != nil {
		t.Fatal(err)
	}
	location, err := url.Parse(prepared.GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{}, http.MethodPost, location)
	if err != nil {
		t.Fatal(err)
	}
	in, typed := io.Pipe()
	defer func() { _ = typed.Close() }()
	out, written := io.Pipe()
	commandEnded := make(chan error, 1)
	go func() {
		commandEnded <- executor.StreamWithContext(t.Context(), remotecommand.StreamOptions{Stdin: in, Stdout: written})
	}()
	if _, err := io.ReadFull(out, make([]byte, len("ready\n"))); err != nil {
		t.Fatal(err)
	}
	conn, forwardEnded := forwarded(t, r, sandbox)
	if _, err := fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 OK"))); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := <-commandEnded; err != nil { // Over SPDY, client-go takes a lost connection for the end of the command.
		t.Logf("the command ended with %v", err)
	}
	if err := <-forwardEnded; !errors.Is(err, portforward.ErrLostConnectionToPod) {
		t.Errorf("forwarding ended with %v", err)
	}
}

// forwarded returns a connection to a pod through a client that forwards a port.
func forwarded(t *testing.T, r *Runtime, sandbox string) (net.Conn, <-chan error) {
	t.Helper()
	prepared, err := r.PortForward(t.Context(), &cri.PortForwardRequest{PodSandboxId: sandbox})
	if err != nil {
		t.Fatal(err)
	}
	location, err := url.Parse(prepared.GetUrl())
	if err != nil {
		t.Fatal(err)
	}
	transport, upgrader, err := spdy.RoundTripperFor(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	dialer := spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, location)
	end, ready := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(end) })
	forwarder, err := portforward.New(dialer, []string{"0:80"}, end, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- forwarder.ForwardPorts() }()
	<-ready
	ports, err := forwarder.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	var network net.Dialer
	conn, err := network.DialContext(t.Context(), "tcp", fmt.Sprint("127.0.0.1:", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn, ended
}
