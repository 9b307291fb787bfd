package server

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"

	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/test/containers/harness"
)

// TestContainerd checks sessions with real containers: their streams, exit codes, errors and ports.
func TestContainerd(t *testing.T) {
	containers := harness.Start(t)
	f := newFabricOn(t, containers.Endpoint(), containers.Cgroup())
	f.runImage("busy", "busybox", nil, "cat")
	f.runImage("page", "nginx:1.14.2", nil)
	large := strings.Repeat("0123456789abcdef", 64<<10)
	for _, protocol := range protocols {
		var out, errOut bytes.Buffer
		err := f.session(t.Context(), protocol, nodeapi.Exec, "busy/main", []string{"sh", "-c", "cat; echo bad >&2; exit 7"},
			remotecommand.StreamOptions{Stdin: strings.NewReader(large), Stdout: &out, Stderr: &errOut})
		if exitCode(err) != 7 || out.String() != large || errOut.String() != "bad\n" {
			t.Errorf("%s: got %d bytes, %q, %v", protocol, out.Len(), errOut.String(), err)
		}
		err = f.session(t.Context(), protocol, nodeapi.Exec, "busy/main", []string{"no-such-command"}, remotecommand.StreamOptions{Stdout: io.Discard})
		if err == nil || !strings.Contains(err.Error(), `exec: "no-such-command": executable file not found in $PATH`) {
			t.Errorf("%s: a command that does not exist: %v", protocol, err)
		}
		out.Reset()
		in, typed := io.Pipe()
		err = f.session(t.Context(), protocol, nodeapi.Exec, "busy/main", []string{"echo", "terminal"},
			remotecommand.StreamOptions{Stdin: in, Stdout: &out, Tty: true, TerminalSizeQueue: &sizes{left: 3}})
		if err := errors.Join(err, typed.Close()); err != nil || out.String() != "terminal\r\n" {
			t.Errorf("%s: in a terminal: %q, %v", protocol, out.String(), err)
		}
		ends, forwarded := make(chan struct{}), make(chan error, 1)
		ready := make(chan struct{})
		forwarder, err := portforward.New(f.dialer(protocol, "page"), []string{"0:80"}, ends, ready, io.Discard, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		go func() { forwarded <- forwarder.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-forwarded:
			t.Fatalf("%s: forwarding ended with %v", protocol, err)
		}
		ports, err := forwarder.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		f.eventually("the page is served", func() error {
			if got := get(t, ports[0].Local); !strings.Contains(got, "Welcome to nginx!") {
				return errors.New(got)
			}
			return nil
		})
		close(ends)
		if err := <-forwarded; err != nil {
			t.Errorf("%s: forwarding ended with %v", protocol, err)
		}
	}
	var out bytes.Buffer
	err := f.session(t.Context(), "WebSocket", nodeapi.Attach, "busy/main", nil,
		remotecommand.StreamOptions{Stdin: strings.NewReader("hello\nbye\n"), Stdout: &out})
	if err != nil || out.String() != "hello\nbye\n" {
		t.Errorf("attached: %q, %v", out.String(), err)
	}
}
