package podlifecycle

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
	"github.com/garboard/garboard/services/nodeagent/internal/crashloop"
	"github.com/garboard/garboard/services/nodeagent/internal/images"
	"github.com/garboard/garboard/services/nodeagent/internal/objectcache"
	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
	"github.com/garboard/garboard/services/nodeagent/internal/podfiles"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/prober"
	"github.com/garboard/garboard/services/nodeagent/internal/resolver"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
	"github.com/garboard/garboard/services/nodeagent/internal/volumes"
)

// Runtime is the part of a container runtime that Lifecycle uses.
type Runtime interface {
	RunSandbox(ctx context.Context, cfg runtime.SandboxConfig) (string, error)
	Sandbox(ctx context.Context, id string) (runtime.Sandbox, error)
	StopSandbox(ctx context.Context, id string) error
	RemoveSandbox(ctx context.Context, id string) error
	CreateContainer(ctx context.Context, sandboxID string, cfg runtime.ContainerConfig, sandbox runtime.SandboxConfig) (string, error)
	StartContainer(ctx context.Context, id string) error
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	RemoveContainer(ctx context.Context, id string) error
	ExecSync(ctx context.Context, id string, command []string, timeout time.Duration) (stdout, stderr []byte, exitCode int32, err error)
	ImageStatus(ctx context.Context, ref string) (runtime.Image, error)
}

// Config configures a Lifecycle; fields are required unless noted otherwise.
type Config struct {
	Runtime Runtime
	// RuntimeName is the prefix of container IDs in the API.
	RuntimeName string
	// NetworkReady returns the reason why pods cannot have a network; nil when they can.
	NetworkReady func() error
	Images       *images.Images
	Volumes      *volumes.Volumes
	References   *objectcache.Reader
	Prober       *prober.Prober
	Status       *status.Writer
	Events       *events.Recorder
	// Node returns the Node as the agent wants it in the API.
	Node func() *corev1.Node
	// NodeIPs are the node's addresses.
	NodeIPs []string
	// LogDir holds containers' logs, and SeccompDir the seccomp profiles that pods may refer to.
	LogDir, SeccompDir string
	// MaskedPaths are hidden from containers in addition to those that every machine hides.
	MaskedPaths []string
	// HugePageSizes are the sizes that the kernel has, as in cgroups ("2MB"), and CgroupV2 reports
	// whether it has cgroups v2.
	HugePageSizes []string
	CgroupV2      bool
	// ResolverConfig is the path of the node's resolver configuration (resolv.conf).
	ResolverConfig string
	// ClusterDNS and ClusterDomain apply to pods with dnsPolicy ClusterFirst.
	ClusterDNS    []string
	ClusterDomain string
	// Changed reports that something was done in the runtime.
	Changed func()
	// Dial opens connections to pods; the network when nil.
	Dial prober.Dial
	// Service is the agent's name in hops.
	Service string
	Trace   *trace.Recorder
	Logger  *slog.Logger
}

// Lifecycle performs the steps of pods' lifecycles. For one pod calls come one at a time.
type Lifecycle struct {
	cfg      Config
	crashes  *crashloop.Delays
	resolver resolver.Config

	mu sync.Mutex
	// reasons are the reasons why containers wait, by pod and container.
	reasons map[string]map[string]status.Reason
	// kills are the reasons why the node terminated pods, by UID.
	kills map[string]*podworkers.Kill
}

var _ podworkers.Syncer = (*Lifecycle)(nil)

// New returns a Lifecycle.
func New(cfg Config) *Lifecycle {
	return &Lifecycle{
		cfg:      cfg,
		crashes:  crashloop.New(crashloop.Initial, crashloop.Max, crashloop.Reset),
		resolver: resolver.Config{Path: cfg.ResolverConfig, ClusterDNS: cfg.ClusterDNS, ClusterDomain: cfg.ClusterDomain},
		reasons:  map[string]map[string]status.Reason{},
		kills:    map[string]*podworkers.Kill{},
	}
}

func (l *Lifecycle) setReason(pod *corev1.Pod, container string, reason status.Reason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	uid := string(pod.UID)
	if l.reasons[uid] == nil {
		l.reasons[uid] = map[string]status.Reason{}
	}
	reason.Message = events.Cut(reason.Message, podfiles.MaxMessage)
	l.reasons[uid][container] = reason
}

func (l *Lifecycle) clearReason(pod *corev1.Pod, container string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.reasons[string(pod.UID)], container)
}

func (l *Lifecycle) reason(uid, container string) (status.Reason, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	reason, ok := l.reasons[uid][container]
	return reason, ok
}

// generate returns the input of the pod's status and the status.
func (l *Lifecycle) generate(ctx context.Context, pod *corev1.Pod, state *podstate.Pod, ended bool) (status.Input, *corev1.PodStatus) {
	old := l.cfg.Status.Get(pod)
	allocated, resized := allocation.Of(pod, state, old)
	in := status.Input{
		Pod: allocated, Resized: resized, Old: old, State: podfiles.WithMessages(ctx, l.podDir(pod), pod, state),
		RuntimeName: l.cfg.RuntimeName, HostIPs: l.cfg.NodeIPs,
		Waiting: func(container string) (status.Reason, bool) { return l.reason(string(pod.UID), container) },
		Ready:   l.cfg.Prober.Ready,
		Started: func(c *corev1.Container, id string) bool { return l.cfg.Prober.Started(pod, c, id) },
		Ended:   ended, Now: metav1.Now(),
	}
	return in, status.Generate(in)
}

// report sets the pod's status from the runtime's state.
func (l *Lifecycle) report(ctx context.Context, pod *corev1.Pod, state *podstate.Pod) {
	_, s := l.generate(ctx, pod, state, false)
	l.cfg.Status.Set(pod, s)
}

// event records an Event about a container of a pod.
func (l *Lifecycle) event(pod *corev1.Pod, container, eventType, reason, format string, args ...any) {
	l.cfg.Events.EventAbout(ContainerReference(pod, container), nil, eventType, reason, format, args...)
}

// ContainerReference returns the reference to one container of a pod, for an Event.
func ContainerReference(pod *corev1.Pod, container string) *corev1.ObjectReference {
	ref := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion,
	}
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == container {
			ref.FieldPath = "spec.containers{" + container + "}"
		}
	}
	for i := range pod.Spec.InitContainers {
		if pod.Spec.InitContainers[i].Name == container {
			ref.FieldPath = "spec.initContainers{" + container + "}"
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		if pod.Spec.EphemeralContainers[i].Name == container {
			ref.FieldPath = "spec.ephemeralContainers{" + container + "}"
		}
	}
	return ref
}

// hop records a call to the runtime that took from began until now.
func (l *Lifecycle) hop(pod *corev1.Pod, began time.Time, call string) {
	l.cfg.Trace.Record(trace.Hop{
		Took: time.Since(began), Service: l.cfg.Service, Step: trace.Runtime, Resource: "pods",
		Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Detail: call,
	})
}

// containerOf returns a container in the pod's spec; nil if it is not there any more, or ephemeral:
// these have neither hooks nor probes.
func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// formatPod formats a pod for messages, as the kubelet does.
func formatPod(pod *corev1.Pod) string {
	return pod.Name + "_" + pod.Namespace + "(" + string(pod.UID) + ")"
}

// backoffKey returns the key of a container's back-off: a container whose spec changed starts over.
func backoffKey(pod *corev1.Pod, c *corev1.Container) string {
	return string(pod.UID) + "/" + c.Name + "/" + podactions.Hash(c)
}

// WaitingReason returns the reason why a container waits, if it does.
func (l *Lifecycle) WaitingReason(uid, container string) (string, bool) {
	reason, ok := l.reason(uid, container)
	return reason.Reason, ok
}
