package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
)

// calls counts the calls that a simulated runtime receives, and fails those that a test selects.
type calls struct {
	mu     sync.Mutex
	counts map[string]int
	faults map[string]error
}

func (c *calls) take(call string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[call]++
	return c.faults[call]
}

func (c *calls) fail(call string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[call] = err
}

func (c *calls) count(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[call]
}

func simulate(t *testing.T, dir string) (*bench, *calls) {
	t.Helper()
	c := &calls{counts: map[string]int{}, faults: map[string]error{}}
	server, err := simulated.New(simulated.Config{Dir: dir, PodCIDR: netip.MustParsePrefix("10.200.7.0/24"), Fail: c.take})
	if err != nil {
		t.Fatal(err)
	}
	run(t, server.Run)
	return &bench{client: connect(t, server.Endpoint()), logs: t.TempDir()}, c
}

func TestConnectRefuses(t *testing.T) {
	quiet := slog.New(slog.DiscardHandler)
	for _, endpoint := range []string{"", "containerd.sock", "tcp://127.0.0.1:1", "http://x"} {
		if _, err := runtime.Connect(t.Context(), endpoint, quiet); err == nil || !strings.Contains(err.Error(), "is not a unix socket") {
			t.Errorf("%q: %v", endpoint, err)
		}
	}
	// Connect retries until the time is up, in which a busy machine may not have tried even once.
	for brief := 300 * time.Millisecond; ; brief *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), brief)
		_, err := runtime.Connect(ctx, "unix://"+filepath.Join(t.TempDir(), "none.sock"), quiet)
		cancel()
		if err == nil {
			t.Fatal("a missing socket was found")
		}
		if errors.Is(err, runtime.ErrUnavailable) && strings.Contains(err.Error(), "no such file") {
			break
		}
		if brief > patience {
			t.Fatalf("a missing socket: %v", err)
		}
	}
}

// TestConnectToOther: a gRPC server that does not speak CRI v1 is rejected at once.
func TestConnectToOther(t *testing.T) {
	path := filepath.Join(t.TempDir(), "other.sock")
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	run(t, func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, server.Stop)
		defer stop()
		return server.Serve(listener)
	})
	if _, err := runtime.Connect(t.Context(), path, slog.New(slog.DiscardHandler)); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

// TestConnectWaits: Connect waits for a runtime that starts later, and the client reconnects to a
// restarted one.
func TestConnectWaits(t *testing.T) {
	dir := t.TempDir()
	cfg := simulated.Config{Dir: dir, PodCIDR: netip.MustParsePrefix("10.200.7.0/24")}
	first, err := simulated.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		<-time.After(300 * time.Millisecond)
		ended <- first.Run(ctx)
	}()
	client := connect(t, first.Endpoint())
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if _, err := client.Version(t.Context()); !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("without a runtime: %v", err)
	}
	second, err := simulated.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, second.Run)
	for deadline := time.Now().Add(patience); ; {
		if _, err = client.Version(t.Context()); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the client did not reconnect to the runtime: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// TestRelistIsCheap: unchanged objects are not read again.
func TestRelistIsCheap(t *testing.T) {
	b, calls := simulate(t, t.TempDir())
	pod := b.pod(t, map[string]string{simulated.AnnotationPrefix + "exit-code.ending": "0"})
	sandbox := b.sandbox(t, pod)
	running := b.start(t, sandbox, b.shell(t, "running", "sleep 1000"), pod)
	ending := b.start(t, sandbox, b.shell(t, "ending", "true"), pod)
	b.find(t, ending, ended)
	relist := func() {
		if _, err := b.client.Containers(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := b.client.Sandboxes(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	relist()
	containers, sandboxes := calls.count("ContainerStatus"), calls.count("PodSandboxStatus")
	for range 10 {
		relist()
	}
	if calls.count("ContainerStatus") != containers || calls.count("PodSandboxStatus") != sandboxes {
		t.Error("nothing changed, but statuses were read again")
	}
	if err := b.client.StopContainer(t.Context(), running, 0); err != nil {
		t.Fatal(err)
	}
	relist()
	if got := calls.count("ContainerStatus") - containers; got != 1 {
		t.Errorf("one container changed, but %d statuses were read", got)
	}
}

func TestErrors(t *testing.T) {
	b, calls := simulate(t, t.TempDir())
	for _, test := range []struct {
		fault error
		kind  error
		words string
	}{
		{status.Error(codes.NotFound, "no such"), runtime.ErrNotFound, "rpc error: code = NotFound desc = no such"},
		{status.Error(codes.DeadlineExceeded, "late"), runtime.ErrTimeout, "rpc error: code = DeadlineExceeded desc = late"},
		{status.Error(codes.Unimplemented, "what"), runtime.ErrUnsupported, "rpc error: code = Unimplemented desc = what"},
		{status.Error(codes.Unknown, "RegistryUnavailable: 503"), runtime.ErrRegistryUnavailable, "RegistryUnavailable: 503"},
		{status.Error(codes.Unknown, "SignatureValidationFailed: no key"), runtime.ErrSignatureValidationFailed, "SignatureValidationFailed: no key"},
		{errors.New("plain"), nil, "plain"},
	} {
		calls.fail("PullImage", test.fault)
		_, err := b.client.PullImage(t.Context(), "nginx", runtime.Auth{}, runtime.SandboxConfig{})
		if err == nil || test.kind != nil && !errors.Is(err, test.kind) || runtime.Describe(err) != test.words ||
			err.Error() != `pulling the image "nginx": `+test.words {
			t.Errorf("%v became %v", test.fault, err)
		}
	}
}

func TestEvents(t *testing.T) {
	b, calls := simulate(t, t.TempDir())
	calls.fail("GetContainerEvents", status.Error(codes.Unimplemented, "unknown method"))
	if err := b.client.Events(t.Context(), nil); !errors.Is(err, runtime.ErrUnsupported) {
		t.Errorf("a runtime without events: %v", err)
	}
	calls.fail("GetContainerEvents", nil)
	before := calls.count("GetContainerEvents")

	ctx, cancel := context.WithCancel(t.Context())
	events := make(chan runtime.Event, 100)
	done := make(chan error, 1)
	go func() { done <- b.client.Events(ctx, func(e runtime.Event) { events <- e }) }()
	for deadline := time.Now().Add(patience); calls.count("GetContainerEvents") == before; {
		if time.Now().After(deadline) {
			t.Fatal("the events are not requested")
		}
		<-time.After(time.Millisecond)
	}
	pod := b.pod(t, nil)
	// The stream may start a moment after the request, in the middle of one sandbox's events. So
	// run sandboxes until one is seen from its first event. There are only a few hundred addresses,
	// so each sandbox gets more time than the last.
	var first runtime.Event
	for wait := 10 * time.Millisecond; first.ID == "" || first.Type == runtime.EventStarted; wait *= 2 {
		pod.Attempt++
		b.sandbox(t, pod)
		select {
		case first = <-events:
		case <-time.After(wait):
		}
	}
	if first.Type != runtime.EventCreated || first.PodUID != pod.UID || first.At.IsZero() {
		t.Errorf("the first event is %+v", first)
	}
	if second := <-events; second.Type != runtime.EventStarted || second.ID != first.ID {
		t.Errorf("the second event is %+v", second)
	}
	cancel()
	if err := <-done; err != nil {
		t.Errorf("after the end of the context: %v", err)
	}
}

// TestLongPath: if the name of the directory is too long for a socket, the socket is in another
// directory that is private to this user.
func TestLongPath(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	b, _ := simulate(t, dir)
	if strings.HasPrefix(b.client.Endpoint(), "unix://"+dir) {
		t.Errorf("the socket %s is longer than systems allow", b.client.Endpoint())
	}
	info, err := os.Stat(filepath.Dir(strings.TrimPrefix(b.client.Endpoint(), "unix://")))
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the socket's directory is %v, %v", info, err)
	}
	b.sandbox(t, b.pod(t, nil))
}

// TestOneThatCannotBeRead: one sandbox or container that the runtime cannot read does not hide the others, unless the
// runtime itself is away.
func TestOneThatCannotBeRead(t *testing.T) {
	b, calls := simulate(t, t.TempDir())
	first := b.pod(t, map[string]string{simulated.AnnotationPrefix + "exit-code.ending": "0"})
	known := b.sandbox(t, first)
	if _, err := b.client.Sandboxes(t.Context()); err != nil {
		t.Fatal(err)
	}
	busy := status.Error(codes.Unknown, "remove netns: device or resource busy")
	calls.fail("PodSandboxStatus", busy)
	calls.fail("ContainerStatus", busy)
	second := b.pod(t, nil)
	unread := b.sandbox(t, second)
	container := b.start(t, known, b.shell(t, "ending", "true"), first)
	list := func() (map[string]runtime.Sandbox, runtime.Container) {
		t.Helper()
		sandboxes, err := b.client.Sandboxes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]runtime.Sandbox{}
		for _, s := range sandboxes {
			found[s.ID] = s
		}
		containers, err := b.client.Containers(t.Context())
		if err != nil || len(containers) != 1 {
			t.Fatalf("got %v, %v", containers, err)
		}
		return found, containers[0]
	}
	sandboxes, c := list()
	if s := sandboxes[known]; s.Err != nil || len(s.IPs) == 0 {
		t.Errorf("a sandbox that was read before: %+v", s)
	}
	if s := sandboxes[unread]; s.Err == nil || s.PodUID != second.UID || !s.Ready {
		t.Errorf("a sandbox that cannot be read: %+v", s)
	}
	if c.Err == nil || c.ID != container || c.PodUID != first.UID || c.SandboxID != known || c.Name != "ending" {
		t.Errorf("a container that cannot be read: %+v", c)
	}
	if err := b.client.StopSandbox(t.Context(), unread); err != nil {
		t.Fatal(err)
	}
	if sandboxes, _ = list(); sandboxes[unread].Err != nil || sandboxes[unread].Ready {
		t.Errorf("a stopped sandbox, which has nothing more to read: %+v", sandboxes[unread])
	}
	calls.fail("PodSandboxStatus", nil)
	calls.fail("ContainerStatus", nil)
	if _, c = list(); c.Err != nil {
		t.Errorf("when it can be read again: %v", c.Err)
	}
	third := b.sandbox(t, b.pod(t, nil))
	calls.fail("PodSandboxStatus", status.Error(codes.Unavailable, "connection refused"))
	if found, err := b.client.Sandboxes(t.Context()); !errors.Is(err, runtime.ErrUnavailable) {
		t.Errorf("a runtime that went away when %s was to be read: %v, %v", third, found, err)
	}
}
