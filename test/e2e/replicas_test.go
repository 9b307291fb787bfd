package e2e_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/garboard/garboard/test/e2e/plane"
)

// TestStreamsOfReplicas runs the story of connections through one of three apiservers, while another is killed, and sees
// that sessions last as long as the apiserver that carries them.
func TestStreamsOfReplicas(t *testing.T) {
	s := newServices(t)
	carrier, is, _ := s.addApiserver(t)
	_, idle, _ := s.addApiserver(t)
	idle.kill(t)
	streams(t, carrier, "simulated pod web: nothing runs")

	expect(t, carrier, `{apiVersion: v1, kind: Pod, metadata: {name: lasting}, spec: {terminationGracePeriodSeconds: 1, containers: [{name: main, image: "nginx:1.14.2"}]}}`,
		"created", "create", "-f", "-")
	carrier.Must(t, "", "wait", "--for=condition=Ready", "pod/lasting", "--timeout=150s")
	sessions := map[string]*talk{}
	for name, env := range map[string][]string{"SPDY": overSPDY, "WebSockets": overWebSockets} {
		sessions[name] = echoes(t, carrier, env)
		sessions[name].says(t, name, "before")
	}
	follower := carrier.Command(t.Context(), "logs", "--follow", "lasting")
	followed := make(chan struct{})
	if err := follower.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = follower.Wait() // Whether kubectl reports its end depends on when it hears of it.
		close(followed)
	}()

	s.apiserver.kill(t)
	for name, one := range sessions {
		one.says(t, name, "after the end of another apiserver")
	}
	expect(t, carrier, "", "^new\n$", "exec", "lasting", "--", "echo", "new")
	select {
	case <-followed:
		t.Error("the followed log ended with another apiserver")
	default:
	}

	// The apiserver that carries sessions ends them when it ends itself.
	is.terminate(t)
	for name, one := range sessions {
		// Over SPDY, kubectl takes a connection that ends for a command that has.
		if code, text := one.ends(t, name); name != "SPDY" && (code == 0 || strings.TrimSpace(text) == "") {
			t.Errorf("%s: the session ended with exit code %d and %q", name, code, text)
		}
	}
	select {
	case <-followed:
	case <-time.After(plane.Patience):
		t.Error("the followed log goes on without its apiserver")
	}
}

// talk is a kubectl that runs cat in a pod.
type talk struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	lines  chan string
	errOut *strings.Builder
}

// echoes runs cat in the pod lasting.
func echoes(t *testing.T, p *plane.Plane, env []string) *talk {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	s := &talk{cmd: p.Command(ctx, "exec", "-i", "lasting", "--", "cat"), lines: make(chan string, 16), errOut: &strings.Builder{}}
	s.cmd.Env, s.cmd.Stderr = append(s.cmd.Env, env...), s.errOut
	in, err := s.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.in = in
	go func() {
		defer close(s.lines)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			s.lines <- lines.Text()
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range s.lines { // until kubectl has ended
			continue
		}
	})
	return s
}

// says sends a line and waits until it comes back.
func (s *talk) says(t *testing.T, name, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		t.Fatalf("%s: sending %q: %v", name, line, err)
	}
	select {
	case got, ok := <-s.lines:
		if got != line {
			t.Fatalf("%s: got %q, %t, want %q", name, got, ok, line)
		}
	case <-time.After(plane.Patience):
		t.Fatalf("%s: %q does not come back", name, line)
	}
}

// ends waits for the end of kubectl, and returns its exit code and what it reported.
func (s *talk) ends(t *testing.T, name string) (code int, text string) {
	t.Helper()
	select {
	case _, ok := <-s.lines:
		if ok {
			t.Errorf("%s: the session said more", name)
		}
	case <-time.After(plane.Patience):
		t.Fatalf("%s: the session goes on", name)
	}
	_ = s.cmd.Wait() // The exit code says it.
	return s.cmd.ProcessState.ExitCode(), s.errOut.String()
}
