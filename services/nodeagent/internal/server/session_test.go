package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/httpstream" //nolint:staticcheck // The types of client-go's dialers.
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"

	"github.com/garboard/garboard/libs/bus/bushttp"
	"github.com/garboard/garboard/libs/bus/bushttp/serve"
	"github.com/garboard/garboard/libs/bus/bustest"
	"github.com/garboard/garboard/libs/nodeapi"
	"github.com/garboard/garboard/services/nodeagent/internal/containerlog"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
)

const nodeName = "node-1"

// patience is how long a test waits for something that is slow on a loaded machine.
const patience = time.Minute

// fabric is a node on the bus, and a server on this machine in the place of the apiserver.
type fabric struct {
	t       *testing.T
	runtime *runtime.Client
	cgroup  string // of pods; empty for the simulated runtime
	node    *Server
	front   string // the URL of the server on this machine
	logs    string
	// stop ends the node's server.
	stop func()

	mu   sync.Mutex
	pods map[string]*corev1.Pod
}

// background runs run until the test ends or stop is called.
func background(t *testing.T, run func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() {
		if err := run(ctx); err != nil {
			t.Errorf("running: %v", err)
		}
	})
	stop = func() {
		cancel()
		group.Wait()
	}
	t.Cleanup(stop)
	return stop
}

func newFabric(t *testing.T) *fabric {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	machine, err := simulated.New(simulated.Config{Dir: t.TempDir(), PodCIDR: netip.MustParsePrefix("10.200.7.0/24"), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	background(t, machine.Run)
	return newFabricOn(t, machine.Endpoint(), "")
}

// newFabricOn returns a fabric with a node of the runtime at endpoint.
func newFabricOn(t *testing.T, endpoint, cgroup string) *fabric {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	f := &fabric{t: t, logs: t.TempDir(), cgroup: cgroup, pods: map[string]*corev1.Pod{}}
	var err error
	if f.runtime, err = runtime.Connect(t.Context(), endpoint, quiet); err != nil {
		t.Fatal(err)
	}
	f.runtime.Own(nodeName)
	t.Cleanup(func() { _ = f.runtime.Close() })
	f.node = New(Config{SyncLoop: func() error { return nil }, Stats: f.stats(), Runtime: f.runtime, Pod: f.pod, State: f.state, Waiting: func(string, string) (string, bool) { return "", false }, Logger: quiet})
	nats := bustest.NewServer(t)
	f.stop = background(t, serve.New(serve.Config{Node: nodeName, Conn: nats.Connect(), Handler: f.node, Drain: time.Millisecond}).Run)
	transport, err := bushttp.New(t.Context(), bushttp.Config{Conn: nats.Connect(), Node: nodeName})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(transport.Close)
	target := &url.URL{Scheme: "http", Host: "node"}
	front := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
	})
	t.Cleanup(front.Close)
	f.front = front.URL
	f.eventually("the node serves", func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.front+"/healthz", nil)
		if err != nil {
			return err
		}
		response, err := front.Client().Do(request)
		if err != nil {
			return err
		}
		if err := response.Body.Close(); err != nil || response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s, %w", response.Status, err)
		}
		return nil
	})
	return f
}

func (f *fabric) eventually(what string, check func() error) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s: %v", what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

func (f *fabric) pod(_, name string) *corev1.Pod {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.pods[name]
}

func (f *fabric) state(uid string) *podstate.Pod {
	if pod := f.states()[uid]; pod != nil {
		return pod
	}
	return &podstate.Pod{UID: uid}
}

func (f *fabric) states() map[string]*podstate.Pod {
	sandboxes, err := f.runtime.Sandboxes(context.WithoutCancel(f.t.Context()))
	if err != nil {
		f.t.Error(err)
	}
	containers, err := f.runtime.Containers(context.WithoutCancel(f.t.Context()))
	if err != nil {
		f.t.Error(err)
	}
	return podstate.Group(sandboxes, containers)
}

// run runs a pod with the container main, and returns the container's ID.
func (f *fabric) run(name string, annotations map[string]string) string {
	f.t.Helper()
	return f.runImage(name, "busybox", annotations)
}

// runImage is run of an image with a command, if any.
func (f *fabric) runImage(name, from string, annotations map[string]string, command ...string) string {
	f.t.Helper()
	pod := runtime.SandboxConfig{
		Name: name, Namespace: "default", UID: "uid-" + name, Hostname: name, Annotations: annotations,
		LogDirectory: filepath.Join(f.logs, name),
	}
	if err := os.MkdirAll(pod.LogDirectory, 0o755); err != nil {
		f.t.Fatal(err)
	}
	if f.cgroup != "" {
		pod.CgroupParent = f.cgroup + "/pod" + pod.UID
	}
	sandbox, err := f.runtime.RunSandbox(f.t.Context(), pod)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		ctx := context.WithoutCancel(f.t.Context())
		if err := errors.Join(f.runtime.StopSandbox(ctx, sandbox), f.runtime.RemoveSandbox(ctx, sandbox)); err != nil {
			f.t.Error(err)
		}
	})
	image, err := f.runtime.PullImage(f.t.Context(), from, runtime.Auth{}, pod)
	if err != nil {
		f.t.Fatal(err)
	}
	cfg := runtime.ContainerConfig{Name: "main", Image: image, UserImage: from, Command: command, LogPath: "main.log", Stdin: true, StdinOnce: true, Env: []runtime.EnvVar{{Name: "COLOUR", Value: "red"}}}
	id, err := f.runtime.CreateContainer(f.t.Context(), sandbox, cfg, pod)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.runtime.StartContainer(f.t.Context(), id); err != nil {
		f.t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pods[name] = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}},
	}
	return id
}

// protocols are those of clients: kubectl tries the second first.
var protocols = []string{"SPDY", "WebSocket"}

// session runs a session of a client.
func (f *fabric) session(ctx context.Context, protocol, verb, container string, command []string, opts remotecommand.StreamOptions) error {
	f.t.Helper()
	query := url.Values{"command": command}
	for name, wanted := range map[string]bool{"input": opts.Stdin != nil, "output": opts.Stdout != nil, "error": opts.Stderr != nil, "tty": opts.Tty} {
		if wanted {
			query.Set(name, "1")
		}
	}
	pod, container, _ := strings.Cut(container, "/")
	at := nodeapi.Target{Namespace: "default", Pod: pod, UID: "uid-" + pod, Container: container}.URL(verb, query)
	at.Host = strings.TrimPrefix(f.front, "http://")
	config := &rest.Config{Host: f.front}
	var executor remotecommand.Executor
	var err error
	if protocol == "SPDY" {
		executor, err = remotecommand.NewSPDYExecutor(config, http.MethodPost, at)
	} else {
		executor, err = remotecommand.NewWebSocketExecutor(config, http.MethodGet, at.String())
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return executor.StreamWithContext(ctx, opts)
}

// TestExec checks outputs, exit codes and errors of commands, as clients of both protocols see them.
func TestExec(t *testing.T) {
	f := newFabric(t)
	f.run("web", nil)
	f.run("told", map[string]string{simulated.AnnotationPrefix + "exec-output": "as told\n", simulated.AnnotationPrefix + "exec-code": "3"})
	large := strings.Repeat("0123456789abcdef", 64<<10)
	for _, test := range []struct {
		name, container string
		command         []string
		in, out, errOut string
		code            int
		failure         string
	}{
		{name: "output", command: []string{"echo", "hello", "there"}, out: "hello there\n"},
		{name: "exit code and standard error", command: []string{"/bin/sh", "-c", "echo fine; echo bad >&2; exit 7; echo never"}, out: "fine\n", errOut: "bad\n", code: 7},
		{name: "end of the input", command: []string{"cat"}, in: large, out: large},
		{name: "shell that reads its input", command: []string{"sh"}, in: "hostname\nfalse\n", out: "web\n", code: 1},
		{name: "environment", command: []string{"env"}, out: "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nHOSTNAME=web\nCOLOUR=red\n"},
		{name: "nothing", command: []string{"true"}},
		{name: "input that nobody reads", command: []string{"sleep", "0.01"}, in: "unread"},
		{name: "as the pod's annotations say", container: "told/main", command: []string{"anything"}, out: "as told\n", code: 3},
		{name: "command that does not exist", command: []string{"vim"}, failure: `exec: "vim": executable file not found in $PATH`},
		{name: "container that does not exist", container: "web/other", command: []string{"true"}, failure: `container not found ("other")`},
		{name: "pod that does not exist", container: "gone/main", command: []string{"true"}, failure: "pod does not exist"},
	} {
		for _, protocol := range protocols {
			t.Run(test.name+" over "+protocol, func(t *testing.T) {
				var out, errOut bytes.Buffer
				opts := remotecommand.StreamOptions{Stdout: &out, Stderr: &errOut}
				if test.in != "" {
					opts.Stdin = strings.NewReader(test.in)
				}
				container := test.container
				if container == "" {
					container = "web/main"
				}
				err := f.session(t.Context(), protocol, nodeapi.Exec, container, test.command, opts)
				var exit exec.CodeExitError
				switch {
				case test.failure != "" && (err == nil || !strings.Contains(err.Error(), test.failure)):
					t.Errorf("got the error %v", err)
				case test.failure == "" && test.code == 0 && err != nil:
					t.Error(err)
				case test.code != 0 && (!errors.As(err, &exit) || exit.Code != test.code):
					t.Errorf("got the error %v, want the exit code %d", err, test.code)
				}
				if out.String() != test.out || errOut.String() != test.errOut {
					t.Errorf("got %d bytes %.80q, and %.80q as errors", out.Len(), out.String(), errOut.String())
				}
			})
		}
	}
	f.eventually("all sessions end", f.idle)
}

// idle returns an error while the node serves sessions.
func (f *fabric) idle() error {
	if n := len(f.node.sessions); n > 0 {
		return fmt.Errorf("%d sessions", n)
	}
	return nil
}

// sizes is a terminal whose size changes a few times.
type sizes struct{ left int }

func (s *sizes) Next() *remotecommand.TerminalSize {
	if s.left == 0 {
		return nil
	}
	s.left--
	return &remotecommand.TerminalSize{Width: 80, Height: uint16(20 + s.left)}
}

// TestTerminal checks that a session in a terminal has one output, and survives changes of its size.
func TestTerminal(t *testing.T) {
	f := newFabric(t)
	f.run("web", nil)
	for _, protocol := range protocols {
		var out bytes.Buffer
		err := f.session(t.Context(), protocol, nodeapi.Exec, "web/main", []string{"sh"}, remotecommand.StreamOptions{
			Stdin: strings.NewReader("echo one\necho two >&2\nexit 4\n"), Stdout: &out, Tty: true, TerminalSizeQueue: &sizes{left: 5},
		})
		var exit exec.CodeExitError
		if !errors.As(err, &exit) || exit.Code != 4 || out.String() != "one\ntwo\n" {
			t.Errorf("%s: got %q, %v", protocol, out.String(), err)
		}
	}
}

// TestSessionsAtOnce checks that two sessions with one container do not mix, and that input arrives as
// it is typed.
func TestSessionsAtOnce(t *testing.T) {
	f := newFabric(t)
	f.run("web", nil)
	type talk struct {
		in  *io.PipeWriter
		out *io.PipeReader
		err chan error
	}
	talks := map[string]talk{}
	for _, protocol := range protocols {
		inReader, in := io.Pipe()
		out, outWriter := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := f.session(t.Context(), protocol, nodeapi.Exec, "web/main", []string{"cat"}, remotecommand.StreamOptions{Stdin: inReader, Stdout: outWriter})
			ended <- errors.Join(err, outWriter.Close())
		}()
		talks[protocol] = talk{in, out, ended}
	}
	for round := range 3 {
		for protocol, talk := range talks {
			said := fmt.Sprintf("%s says %d", protocol, round)
			if _, err := io.WriteString(talk.in, said); err != nil {
				t.Fatal(err)
			}
			heard := make([]byte, len(said))
			if _, err := io.ReadFull(talk.out, heard); err != nil || string(heard) != said {
				t.Errorf("heard %q, %v, want %q", heard, err, said)
			}
		}
	}
	if n := len(f.node.sessions); n != len(talks) {
		t.Errorf("%d sessions at once", n)
	}
	for protocol, talk := range talks {
		if err := errors.Join(talk.in.Close(), <-talk.err); err != nil {
			t.Errorf("%s ended with %v", protocol, err)
		}
	}
}

// TestClientLeaves checks that a session ends when its client is gone.
func TestClientLeaves(t *testing.T) {
	f := newFabric(t)
	f.run("web", nil)
	for _, protocol := range protocols {
		ctx, leave := context.WithCancel(t.Context())
		if err := f.endDuring(ctx, protocol, "web", leave); err == nil {
			t.Errorf("%s: the session ended without an error", protocol)
		}
		f.eventually("the session ends at the node", f.idle)
	}
}

// TestEndOfContainerAndAgent checks that a session ends with its container, and with the agent.
func TestEndOfContainerAndAgent(t *testing.T) {
	f := newFabric(t)
	for _, protocol := range protocols {
		id := f.run("web-"+strings.ToLower(protocol), nil)
		if err := f.endDuring(t.Context(), protocol, "web-"+strings.ToLower(protocol), func() {
			if err := f.runtime.StopContainer(t.Context(), id, 0); err != nil {
				t.Error(err)
			}
		}); exitCode(err) != 137 {
			t.Errorf("%s: the container ended, and the session with %v", protocol, err)
		}
	}
	f.run("web-left", nil)
	// Over SPDY, client-go takes a lost connection for the end of the command.
	if err := f.endDuring(t.Context(), "WebSocket", "web-left", f.stop); err == nil {
		t.Error("the agent ended, and the session without an error")
	}
	if err := f.idle(); err != nil {
		t.Errorf("after the end of the agent: %v", err)
	}
}

// endDuring runs a session with a pod, calls end once it has begun, and returns how it ended.
func (f *fabric) endDuring(ctx context.Context, protocol, pod string, end func()) error {
	f.t.Helper()
	in, out := io.Pipe()
	defer func() { _ = in.Close() }()
	ended := make(chan error, 1)
	go func() {
		ended <- f.session(ctx, protocol, nodeapi.Exec, pod+"/main",
			[]string{"sh", "-c", "echo ready; sleep 100000"}, remotecommand.StreamOptions{Stdout: out})
	}()
	if _, err := io.ReadFull(in, make([]byte, len("ready\n"))); err != nil {
		f.t.Fatal(err)
	}
	end()
	return <-ended
}

func exitCode(err error) int {
	if exit, ok := errors.AsType[exec.CodeExitError](err); ok {
		return exit.Code
	}
	return -1
}

// TestAttach checks that a client sees what the container logs while it is attached, until the
// container ends.
func TestAttach(t *testing.T) {
	f := newFabric(t)
	for _, protocol := range protocols {
		name := "web-" + strings.ToLower(protocol)
		id := f.run(name, nil)
		out, outWriter := io.Pipe()
		ended := make(chan error, 1)
		go func() {
			err := f.session(t.Context(), protocol, nodeapi.Attach, name+"/main", nil, remotecommand.StreamOptions{Stdin: strings.NewReader("ignored"), Stdout: outWriter})
			ended <- errors.Join(err, outWriter.Close())
		}()
		seen := make(chan string, 1)
		go func() {
			first := make([]byte, len("tick\n"))
			_, err := io.ReadFull(out, first)
			seen <- fmt.Sprintf("%q %v", first, err)
			_, _ = io.Copy(io.Discard, out)
		}()
		var got string
		f.eventually("the client sees a line", func() error {
			file, err := os.OpenFile(filepath.Join(f.logs, name, "main.log"), os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			_, err = file.Write(containerlog.Format(time.Now(), containerlog.Stdout, false, []byte("tick")))
			if err := errors.Join(err, file.Close()); err != nil {
				return err
			}
			select {
			case got = <-seen:
				return nil
			default:
				return errors.New("nothing yet")
			}
		})
		if got != `"tick\n" <nil>` {
			t.Errorf("%s: saw %s first", protocol, got)
		}
		if err := f.runtime.StopContainer(t.Context(), id, 0); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: the container ended, and the session with %v", protocol, err)
		}
	}
	if err := f.session(t.Context(), "SPDY", nodeapi.Attach, "web-spdy/main", nil, remotecommand.StreamOptions{Stdout: io.Discard}); err == nil ||
		!strings.Contains(err.Error(), "container main not found in pod web-spdy_default") {
		t.Errorf("attached to an ended container: %v", err)
	}
}

// TestPortForward checks that a client reaches a pod's ports, several connections at once, and learns
// of a refused one.
func TestPortForward(t *testing.T) {
	f := newFabric(t)
	id := f.run("web", nil)
	for _, protocol := range protocols {
		stop, ready := make(chan struct{}), make(chan struct{})
		var errOut bytes.Buffer
		forwarder, err := portforward.New(f.dialer(protocol, "web"), []string{"0:80", "0:8080"}, stop, ready, io.Discard, &errOut)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- forwarder.ForwardPorts() }()
		select {
		case <-ready:
		case err := <-ended:
			t.Fatalf("%s: forwarding ended with %v", protocol, err)
		}
		ports, err := forwarder.GetPorts()
		if err != nil {
			t.Fatal(err)
		}
		var getting sync.WaitGroup
		for _, port := range ports {
			for range 3 {
				getting.Go(func() {
					if got := get(t, port.Local); got != "simulated pod web: nothing runs\n" {
						t.Errorf("%s: port %d says %q", protocol, port.Remote, got)
					}
				})
			}
		}
		getting.Wait()
		close(stop)
		if err := <-ended; err != nil {
			t.Errorf("%s: forwarding ended with %v", protocol, err)
		}
		if errOut.Len() > 0 {
			t.Errorf("%s: forwarding reported %s", protocol, &errOut)
		}
	}
	f.eventually("all sessions end", f.idle)
	if err := f.runtime.StopContainer(t.Context(), id, 0); err != nil {
		t.Fatal(err)
	}
	stop, ready := make(chan struct{}), make(chan struct{})
	forwarder, err := portforward.New(f.dialer("SPDY", "web"), []string{"0:80"}, stop, ready, io.Discard, io.Discard)
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
	if got := get(t, ports[0].Local); !strings.Contains(got, "EOF") && !strings.Contains(got, "reset") {
		t.Errorf("a port that nothing listens at says %q", got)
	}
	close(stop)
	if err := <-ended; err != nil && !errors.Is(err, portforward.ErrLostConnectionToPod) {
		t.Errorf("forwarding ended with %v", err)
	}
}

// dialer returns what opens the connection of a client that forwards ports of a pod.
func (f *fabric) dialer(protocol, pod string) httpstream.Dialer {
	f.t.Helper()
	at := nodeapi.Target{Namespace: "default", Pod: pod}.URL(nodeapi.PortForward, nil)
	at.Host = strings.TrimPrefix(f.front, "http://")
	config := &rest.Config{Host: f.front}
	if protocol != "SPDY" {
		dialer, err := portforward.NewSPDYOverWebsocketDialer(at, config)
		if err != nil {
			f.t.Fatal(err)
		}
		return dialer
	}
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		f.t.Fatal(err)
	}
	return spdy.NewDialer(upgrader, &http.Client{Transport: transport}, http.MethodPost, at)
}

// get returns the answer of a web server on this machine, or the error.
func get(t *testing.T, port uint16) string {
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/", port), nil)
	if err != nil {
		return err.Error()
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	return string(body)
}
