package conformance

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/client/fake"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/nodeagent/internal/images"
	"github.com/garboard/garboard/services/nodeagent/internal/objectcache"
	"github.com/garboard/garboard/services/nodeagent/internal/podlifecycle"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/prober"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
	"github.com/garboard/garboard/services/nodeagent/internal/volumes"
)

// Agent is the node agent as a Node: everything below its pod workers, as package agent wires it,
// without the loops that call it.
type Agent struct {
	lifecycle *podlifecycle.Lifecycle
	client    *runtime.Client
	status    *status.Writer
	volumes   *volumes.Volumes
	synced    map[string]bool
}

// NewAgent connects an agent to a machine that runs. The caller must Close it.
func NewAgent(ctx context.Context, m *Machine, pageSizes []string) (*Agent, error) {
	logger := slog.New(slog.DiscardHandler)
	client, err := runtime.Connect(ctx, m.Endpoint(), logger)
	if err != nil {
		return nil, err
	}
	client.Own(NodeName)
	resolver, err := WriteResolver(m)
	if err != nil {
		return nil, err
	}
	node, api := APINode(), fake.New(scheme.New(), Objects()...)
	refs := objectcache.New(api, logger)
	a := &Agent{client: client, synced: map[string]bool{}, status: status.NewWriter(status.WriterConfig{Client: api, Logger: logger})}
	a.volumes = volumes.New(volumes.Config{
		Dir: filepath.Join(m.Root(), "pods"), References: refs, Client: api, Simulated: true, Logger: logger,
		Allocatable: func() corev1.ResourceList { return node.Status.Allocatable },
	})
	a.lifecycle = podlifecycle.New(podlifecycle.Config{
		Runtime: client, RuntimeName: "containerd", NetworkReady: func() error { return nil },
		Images:  images.New(images.Config{Runtime: client, Logger: logger}),
		Volumes: a.volumes, References: refs, Status: a.status, Events: events.New(api, "kubelet", NodeName),
		Prober: prober.New(prober.Config{
			Exec: client, State: func(string) *podstate.Pod { return &podstate.Pod{} }, HostIP: NodeIPs()[0], Logger: logger,
			Event: func(*corev1.Pod, string, string, string, string, ...any) {},
		}),
		Node: func() *corev1.Node { return node }, NodeIPs: NodeIPs(),
		LogDir: filepath.Join(m.Root(), "logs"), SeccompDir: filepath.Join(m.Root(), "seccomp"),
		HugePageSizes: pageSizes, CgroupV2: true, ResolverConfig: resolver,
		ClusterDNS: []string{ClusterDNS}, ClusterDomain: ClusterDomain, Changed: func() {}, Logger: logger,
	})
	return a, nil
}

// WriteResolver writes the resolver configuration of a machine and returns its path.
func WriteResolver(m *Machine) (string, error) {
	path := filepath.Join(m.Root(), "resolv.conf")
	if err := os.WriteFile(path, []byte(Resolver), 0o600); err != nil {
		return "", fmt.Errorf("writing a machine's resolver configuration: %w", err)
	}
	return path, nil
}

// Close closes the connection to the machine.
func (a *Agent) Close() error { return a.client.Close() }

func (a *Agent) state(ctx context.Context, pod *corev1.Pod) (*podstate.Pod, error) {
	sandboxes, err := a.client.Sandboxes(ctx)
	if err != nil {
		return nil, err
	}
	containers, err := a.client.Containers(ctx)
	if err != nil {
		return nil, err
	}
	if state := podstate.Group(sandboxes, containers)[string(pod.UID)]; state != nil {
		return state, nil
	}
	return &podstate.Pod{UID: string(pod.UID), Name: pod.Name, Namespace: pod.Namespace}, nil
}

// Sync moves a pod closer to its wanted state.
func (a *Agent) Sync(ctx context.Context, pod *corev1.Pod) (map[string]string, error) {
	state, err := a.state(ctx, pod)
	if err != nil {
		return nil, err
	}
	kind := podworkers.Sync
	if !a.synced[string(pod.UID)] {
		a.synced[string(pod.UID)], kind = true, podworkers.Create
	}
	_, _ = a.lifecycle.Sync(ctx, kind, pod, state) // The pod's status shows why it failed.
	waits := map[string]string{}
	now := a.status.Get(pod)
	for _, list := range [][]corev1.ContainerStatus{now.InitContainerStatuses, now.ContainerStatuses, now.EphemeralContainerStatuses} {
		for i := range list {
			if _, failed := a.lifecycle.WaitingReason(string(pod.UID), list[i].Name); failed && list[i].State.Waiting != nil {
				waits[list[i].Name] = list[i].State.Waiting.Reason + ": " + list[i].State.Waiting.Message
			}
		}
	}
	return waits, nil
}

// Kill ends all containers of a pod and removes its files.
func (a *Agent) Kill(ctx context.Context, pod *corev1.Pod, grace int64) error {
	state, err := a.state(ctx, pod)
	if err != nil {
		return err
	}
	if err := a.lifecycle.Terminate(ctx, pod, state, grace, nil); err != nil {
		return err
	}
	return a.volumes.Remove(string(pod.UID))
}

// QOSClass returns the class of a pod whose status has none.
func (a *Agent) QOSClass(pod *corev1.Pod) string { return string(status.QOSClass(pod)) }
