package agent_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/simulated"
	"github.com/garboard/garboard/test/containers/faultpoint"
	"github.com/garboard/garboard/test/containers/harness"
)

// machine is a machine for node agents: a container runtime that can be killed.
type machine interface {
	// endpoint returns the runtime's own socket.
	endpoint() string
	// dial returns the function that opens connections to pods; nil for the network.
	dial() func(ctx context.Context, network, address string) (net.Conn, error)
	// restart kills the runtime and restarts it. Containers of containerd keep running meanwhile.
	restart(t *testing.T)
	// left returns what pods left behind around the runtime.
	left() ([]string, error)
}

// containerdMachine is a machine with containerd.
type containerdMachine struct{ *harness.Containers }

func (m containerdMachine) endpoint() string { return m.Endpoint() }

func (m containerdMachine) dial() func(ctx context.Context, network, address string) (net.Conn, error) {
	return nil
}

func (m containerdMachine) restart(t *testing.T) {
	t.Helper()
	m.Kill(t)
	m.Restart(t)
}

func (m containerdMachine) left() ([]string, error) { return m.Left() }

// simulatedMachine is a machine with the simulated runtime.
type simulatedMachine struct {
	dir string

	mu      sync.Mutex
	runtime *simulated.Runtime
	cancel  context.CancelFunc
	ended   chan error
}

func newSimulatedMachine(t *testing.T) *simulatedMachine {
	t.Helper()
	m := &simulatedMachine{dir: filepath.Join(t.TempDir(), "sim")}
	m.start(t)
	t.Cleanup(func() { m.stop(t) })
	return m
}

func (m *simulatedMachine) start(t *testing.T) {
	t.Helper()
	sim, err := simulated.New(simulated.Config{Dir: m.dir, PodCIDR: netip.MustParsePrefix("10.200.0.0/16")})
	if err != nil {
		t.Fatal(err)
	}
	// Not t.Context: the runtime outlives the test's agents.
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- sim.Run(ctx) }()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.runtime, m.cancel, m.ended = sim, cancel, ended
}

func (m *simulatedMachine) stop(t *testing.T) {
	t.Helper()
	m.cancel()
	if err := <-m.ended; err != nil {
		t.Errorf("the simulated runtime: %v", err)
	}
}

func (m *simulatedMachine) restart(t *testing.T) {
	t.Helper()
	m.stop(t)
	m.start(t)
}

func (m *simulatedMachine) current() *simulated.Runtime {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.runtime
}

func (m *simulatedMachine) endpoint() string { return m.current().Endpoint() }

func (m *simulatedMachine) dial() func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return m.current().Dial(ctx, network, address)
	}
}

// left returns nothing: a simulated sandbox has its address in its file.
func (m *simulatedMachine) left() ([]string, error) {
	files, err := filepath.Glob(filepath.Join(m.dir, "[sc]*", "*.json"))
	return files, err
}

// proxied is a world whose agent reaches its runtime through a proxy.
type proxied struct {
	*world
	machine machine
	proxy   *faultpoint.Proxy
	// direct is a connection to the runtime that bypasses the proxy.
	direct *runtime.Client
	end    func()
}

func newProxied(t *testing.T, m machine) *proxied {
	t.Helper()
	w := &proxied{machine: m, proxy: faultpoint.New(t, m.endpoint())}
	w.world = &world{
		t: t, dir: t.TempDir(), trace: trace.NewRecorder(1000), dial: m.dial(),
		handler: make(chan http.Handler, 4), level: slog.LevelWarn,
	}
	w.api = fake.New(scheme.New(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: corev1.NamespaceNodeLease}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "site"}, Data: map[string]string{"mode": "fast"}},
	)
	w.runtime = connect(t, w.proxy.Endpoint())
	w.runtime.Own(nodeName)
	w.direct = connect(t, m.endpoint())
	return w
}

func connect(t *testing.T, endpoint string) *runtime.Client {
	t.Helper()
	c, err := runtime.Connect(t.Context(), endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// begin starts an agent.
func (w *proxied) begin() { w.end = w.start() }

// kill ends the agent like an uncatchable signal: nothing that it does while it ends reaches the
// runtime or the API.
func (w *proxied) kill() {
	w.proxy.Cut()
	w.api.Fail(func(client.Call) error { return errors.New("the agent is dead") })
	w.end()
	w.api.Fail(nil)
	w.proxy.Mend()
}

// leftovers returns what is left of pods on the machine, "" if nothing is.
func (w *proxied) leftovers() string {
	var left []string
	sandboxes, err := w.direct.Sandboxes(w.t.Context())
	if err != nil {
		return err.Error()
	}
	for _, s := range sandboxes {
		left = append(left, fmt.Sprintf("the sandbox %s of %s, ready: %t", s.ID, s.PodName, s.Ready))
	}
	containers, err := w.direct.Containers(w.t.Context())
	if err != nil {
		return err.Error()
	}
	for _, c := range containers {
		left = append(left, fmt.Sprintf("the container %s of %s in state %s", c.Name, c.PodName, c.State))
	}
	for _, pattern := range []string{"pods/*", "logs/pods/*", "logs/containers/*"} {
		files, err := filepath.Glob(filepath.Join(w.dir, pattern))
		if err != nil {
			return err.Error()
		}
		left = append(left, files...)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err.Error()
	}
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); lines.Scan(); {
		if strings.Contains(lines.Text(), " "+w.dir+"/") {
			left = append(left, "the mount "+lines.Text())
		}
	}
	more, err := w.machine.left()
	if err != nil {
		return err.Error()
	}
	return strings.Join(append(left, more...), "\n")
}
