package podlifecycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/images"
	"github.com/garboard/garboard/services/nodeagent/internal/objectcache"
	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/prober"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
	"github.com/garboard/garboard/services/nodeagent/internal/volumes"
)

// present is the one image that the node has.
const present = "present:1"

// machine is a runtime in memory that records the calls that change it.
type machine struct {
	mu         sync.Mutex
	calls      []string
	sandboxes  []runtime.Sandbox
	containers []runtime.Container
	configs    map[string]runtime.ContainerConfig // by container
	// faults are the errors of calls, takes their durations, and during what happens in them, each
	// by the call's text without its grace period.
	faults map[string]string
	takes  map[string]time.Duration
	during map[string]func()
	// images are the node's images; each pull ends with a fault in faults, or none.
	images map[string]runtime.Image
}

// call records a call when it has ended.
func (m *machine) call(ctx context.Context, text, detail string) error {
	m.mu.Lock()
	took, during, fault := m.takes[text], m.during[text], m.faults[text]
	m.mu.Unlock()
	if during != nil {
		during()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(took):
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls = append(m.calls, strings.TrimSpace(text+" "+detail))
	if fault != "" {
		return errors.New(fault)
	}
	return nil
}

func (m *machine) RunSandbox(ctx context.Context, cfg runtime.SandboxConfig) (string, error) {
	id := fmt.Sprintf("box-%d", cfg.Attempt)
	if err := m.call(ctx, "run", id); err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sandboxes = append(m.sandboxes, runtime.Sandbox{
		ID: id, PodUID: cfg.UID, Attempt: cfg.Attempt, CreatedAt: time.Now(), Ready: true, IPs: []string{"10.0.0.9"},
	})
	return id, nil
}

func (m *machine) Sandbox(ctx context.Context, id string) (runtime.Sandbox, error) {
	if err := m.call(ctx, "look", id); err != nil {
		return runtime.Sandbox{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.sandboxes, func(s runtime.Sandbox) bool { return s.ID == id })
	return m.sandboxes[i], nil
}

func (m *machine) StopSandbox(ctx context.Context, id string) error { return m.call(ctx, "halt", id) }

func (m *machine) RemoveSandbox(ctx context.Context, id string) error {
	return m.call(ctx, "discard", id)
}

func (m *machine) CreateContainer(ctx context.Context, _ string, cfg runtime.ContainerConfig, _ runtime.SandboxConfig) (string, error) {
	m.mu.Lock()
	m.configs[cfg.Name] = cfg
	m.mu.Unlock()
	return "new-" + cfg.Name, m.call(ctx, "create "+cfg.Name, fmt.Sprintf("#%d", cfg.Attempt))
}

func (m *machine) StartContainer(ctx context.Context, id string) error {
	return m.call(ctx, "start "+name(id), "")
}

func (m *machine) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	return m.call(ctx, "stop "+name(id), grace.String())
}

func (m *machine) RemoveContainer(ctx context.Context, id string) error {
	return m.call(ctx, "remove "+name(id), "")
}

// ExecSync runs a hook or a probe, whose command is its name.
func (m *machine) ExecSync(ctx context.Context, _ string, command []string, _ time.Duration) ([]byte, []byte, int32, error) {
	switch err := m.call(ctx, "exec "+command[0], ""); {
	case err == nil:
		return nil, nil, 0, nil
	case err.Error() == "exit 1":
		return nil, nil, 1, nil
	default:
		return nil, nil, 0, err
	}
}

func (m *machine) ImageStatus(_ context.Context, ref string) (runtime.Image, error) {
	image, ok := m.images[ref]
	if !ok {
		return image, runtime.ErrNotFound
	}
	return image, nil
}

func (m *machine) PullImage(ctx context.Context, ref string, auth runtime.Auth, _ runtime.SandboxConfig) (string, error) {
	return ref, m.call(ctx, "pull "+ref, auth.Username)
}

// name returns the container's name in an ID of new or of old containers.
func name(id string) string { return strings.TrimPrefix(strings.TrimPrefix(id, "new-"), "id-") }

// world is a Lifecycle with all that it works on.
type world struct {
	*machine
	*Lifecycle
	t   *testing.T
	api *fake.Client
	// network is why pods have no network.
	network error
	changed int
}

// inWorld runs a test in a bubble, with prober and events running.
func inWorld(t *testing.T, test func(t *testing.T, w *world), objects ...scheme.Object) {
	t.Helper()
	// Not the bubble's: the directory must outlive it.
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, api: fake.New(scheme.New(), objects...), machine: &machine{
			configs: map[string]runtime.ContainerConfig{}, faults: map[string]string{}, takes: map[string]time.Duration{},
			during: map[string]func(){}, images: map[string]runtime.Image{present: {ID: "sha"}},
		}}
		logger := slog.New(slog.NewTextHandler(t.Output(), nil))
		refs := objectcache.New(w.api, logger)
		recorder := events.New(w.api, "kubelet", "n1")
		node := &corev1.Node{}
		w.Lifecycle = New(Config{
			Runtime: w.machine, RuntimeName: "containerd", NetworkReady: func() error { return w.network },
			Images: images.New(images.Config{Runtime: w.machine, Logger: logger}),
			Volumes: volumes.New(volumes.Config{
				Dir: filepath.Join(dir, "pods"), References: refs, Client: w.api, Simulated: true, Logger: logger,
				Allocatable: func() corev1.ResourceList { return nil },
			}),
			References: refs, Status: status.NewWriter(status.WriterConfig{Client: w.api, Logger: logger}), Events: recorder,
			Prober: prober.New(prober.Config{
				Exec: w.machine, State: func(string) *podstate.Pod { return w.state() }, Logger: logger,
				Event: func(*corev1.Pod, string, string, string, string, ...any) {},
			}),
			Node: func() *corev1.Node { return node }, NodeIPs: []string{"192.168.0.1"},
			LogDir: filepath.Join(dir, "logs"), Changed: func() { w.changed++ }, Logger: logger,
		})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = recorder.Run(ctx) })
		running.Go(func() { _ = w.cfg.Prober.Run(ctx) })
		defer running.Wait()
		defer cancel()
		test(t, w)
	})
}

// have sets what the runtime holds: "box" or "deadbox", and containers as "name=State" or
// "name=Exited:code". The oldest comes first.
func (w *world) have(pod *corev1.Pod, text string) {
	for i, part := range strings.Fields(text) {
		at := time.Now().Add(time.Duration(i-100) * time.Second)
		switch part {
		case "box", "deadbox":
			attempt := uint32(len(w.sandboxes))
			w.sandboxes = append(w.sandboxes, runtime.Sandbox{
				ID: fmt.Sprintf("box-%d", attempt), PodUID: "u", Attempt: attempt, CreatedAt: at, Ready: part == "box",
				IPs: []string{"10.0.0.1"},
			})
		default:
			name, state, _ := strings.Cut(part, "=")
			state, code, _ := strings.Cut(state, ":")
			c := runtime.Container{
				ID: "id-" + name, Name: name, SandboxID: fmt.Sprintf("box-%d", max(0, len(w.sandboxes)-1)), PodUID: "u",
				State: runtime.ContainerState(state), CreatedAt: at,
			}
			if spec := containerOf(pod, name); spec != nil {
				c.Annotations = map[string]string{podactions.AnnotationHash: podactions.Hash(spec)}
			}
			if c.State == runtime.Running || c.State == runtime.Exited {
				c.StartedAt = at
			}
			if c.State == runtime.Exited {
				c.FinishedAt = time.Now()
				_, err := fmt.Sscan(cmp.Or(code, "0"), &c.ExitCode)
				if err != nil {
					w.t.Fatal(err)
				}
			}
			w.containers = append(w.containers, c)
		}
	}
}

// state returns what the runtime holds of the pod.
func (w *world) state() *podstate.Pod {
	w.mu().Lock()
	defer w.mu().Unlock()
	if pod := podstate.Group(w.sandboxes, w.containers)["u"]; pod != nil {
		return pod
	}
	return &podstate.Pod{UID: "u"}
}

func (w *world) mu() *sync.Mutex { return &w.machine.mu }

// did returns the calls since the last time, without those that only read.
func (w *world) did() string {
	w.mu().Lock()
	defer w.mu().Unlock()
	calls := slices.DeleteFunc(w.calls, func(call string) bool { return strings.HasPrefix(call, "look") })
	w.calls = nil
	return strings.Join(calls, ", ")
}

// waits returns the reasons why the pod's containers wait, as its status shows them.
func (w *world) waits(pod *corev1.Pod) string {
	var parts []string
	s := w.cfg.Status.Get(pod)
	for _, c := range slices.Concat(s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses) {
		if c.State.Waiting != nil {
			parts = append(parts, c.Name+"="+c.State.Waiting.Reason)
		}
	}
	return strings.Join(parts, " ")
}

// told returns the reasons of the Events that were written since the last time.
func (w *world) told() string {
	synctest.Wait()
	var parts []string
	for _, call := range w.api.Writes() {
		if event, ok := call.Body.(*corev1.Event); ok {
			parts = append(parts, event.Reason)
		}
	}
	w.api.ClearCalls()
	return strings.Join(parts, " ")
}

// podOf returns a pod with these containers; a name that begins with "i-" is an init container, one
// with "s-" a sidecar, with "e-" an ephemeral container.
func podOf(policy corev1.RestartPolicy, names ...string) *corev1.Pod {
	pod := newPod()
	pod.Spec.RestartPolicy = policy
	pod.Spec.DNSPolicy = corev1.DNSDefault
	always := corev1.ContainerRestartPolicyAlways
	for _, name := range names {
		c := corev1.Container{Name: name, Image: present}
		switch {
		case strings.HasPrefix(name, "s-"):
			c.RestartPolicy = &always
			fallthrough
		case strings.HasPrefix(name, "i-"):
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
		case strings.HasPrefix(name, "e-"):
			pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: present},
			})
		default:
			pod.Spec.Containers = append(pod.Spec.Containers, c)
		}
	}
	return pod
}

// newCancel returns the context of a sync, and the function that ends it.
func newCancel(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}
