// Package agent assembles the node agent from its parts, on top of a given runtime, API client and
// source of pods.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	corev1 "k8s.io/api/core/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/watcher"
	"github.com/garboard/garboard/libs/metric"
	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/libs/trace"
	"github.com/garboard/garboard/services/nodeagent/internal/admit"
	"github.com/garboard/garboard/services/nodeagent/internal/desired"
	"github.com/garboard/garboard/services/nodeagent/internal/images"
	"github.com/garboard/garboard/services/nodeagent/internal/localvolumes"
	"github.com/garboard/garboard/services/nodeagent/internal/logrotate"
	"github.com/garboard/garboard/services/nodeagent/internal/node"
	"github.com/garboard/garboard/services/nodeagent/internal/objectcache"
	"github.com/garboard/garboard/services/nodeagent/internal/pleg"
	"github.com/garboard/garboard/services/nodeagent/internal/podlifecycle"
	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/prober"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/serving"
	"github.com/garboard/garboard/services/nodeagent/internal/shutdown"
	"github.com/garboard/garboard/services/nodeagent/internal/stats"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
	"github.com/garboard/garboard/services/nodeagent/internal/syncloop"
	"github.com/garboard/garboard/services/nodeagent/internal/volumes"
)

// statusPeriod is the interval between checks of the runtime's readiness.
const statusPeriod = 5 * time.Second

// ResolverConfig is the path of the node's own resolver configuration (the kubelet's resolvConf).
const ResolverConfig = "/etc/resolv.conf"

// Config configures an Agent. Package nodeagent has filled in all defaults.
type Config struct {
	NodeName string
	Client   client.Interface
	// Source watches the node's pods.
	Source informer.Source
	// Runtime is a connected container runtime and RuntimeVersion its version; Simulated reports
	// that it starts nothing.
	Runtime        *runtime.Client
	RuntimeVersion runtime.Version
	Simulated      bool
	// Dial opens connections to pods, for probes and hooks; the network when nil.
	Dial prober.Dial
	// Conditions returns further conditions of the Node; see node.Config. May be nil.
	Conditions func(present []corev1.NodeCondition) (wanted []corev1.NodeCondition, gone []corev1.NodeConditionType)
	// Serve serves what apiservers ask about the node's pods until ctx ends; may be nil.
	Serve           func(ctx context.Context, handler http.Handler) error
	DataDir, LogDir string
	// LocalVolumesDir holds the folders of local volumes; the node has none when empty.
	LocalVolumesDir string
	Labels          map[string]string
	MaxPods         int
	// AllowedUnsafeSysctls are the kernel parameters that pods may set beyond the safe ones.
	AllowedUnsafeSysctls []string
	NodeIP               string
	ClusterDNS           []string
	ClusterDomain        string
	// Port serves the node's API on a port if its Address is set. The agent sets the rest but for its files.
	Port serving.Config
	// SystemLogs serves the files below /var/log at /logs/, and SystemLogQuery the logs of services too.
	SystemLogs, SystemLogQuery bool
	// LeaseDuration is how long a renewed Lease of the node holds, in whole seconds; 40 s when 0.
	LeaseDuration time.Duration
	// ShutdownGrace is the time the pods have to terminate when the node shuts down;
	// ShutdownGraceCritical is the part of it reserved for critical pods. See Shutdown.
	ShutdownGrace, ShutdownGraceCritical time.Duration
	Logger                               *slog.Logger
	Registerer                           prometheus.Registerer
	// Gatherer has the metrics that the agent serves apiservers; an empty one if nil.
	Gatherer prometheus.Gatherer
	Trace    *trace.Recorder
}

// Agent is the node agent.
type Agent struct {
	cfg       Config
	pods      *desired.Store
	pleg      *pleg.PLEG
	volumes   *volumes.Volumes
	folders   *localvolumes.Folders
	workers   *podworkers.Workers
	lifecycle *podlifecycle.Lifecycle
	prober    *prober.Prober
	status    *status.Writer
	node      *node.Node
	logs      *logrotate.Rotator
	stats     *stats.Provider
	probes    *prometheus.Registry // metrics of probes
	events    *events.Recorder
	factory   *informer.Factory
	shutdown  *shutdown.Shutdown
	sysctls   *admit.Sysctls

	addresses addresses

	mu sync.Mutex
	// runtimeProblem and networkProblem are the reasons why the runtime cannot run pods, or pods
	// with their own network.
	runtimeProblem, networkProblem error
	// synced reports whether every pod that was bound at the start has been delivered.
	synced informer.Registration
	loop   *syncloop.Loop // nil before Run
}

// New assembles an agent. It reads the machine's state but calls neither the runtime nor the API.
func New(cfg Config) (*Agent, error) {
	var err error
	if cfg.NodeIP == "" {
		if cfg.NodeIP, err = node.Address(); err != nil {
			return nil, fmt.Errorf("starting the node agent: %w", err)
		}
	}
	if cfg.Gatherer == nil {
		cfg.Gatherer = prometheus.NewRegistry()
	}
	a := &Agent{
		probes: prometheus.NewRegistry(),
		cfg:    cfg, pods: desired.New(), pleg: pleg.New(cfg.Runtime, cfg.Logger),
		events:         events.New(cfg.Client, "kubelet", cfg.NodeName).WithLogger(cfg.Logger),
		runtimeProblem: errors.New("container runtime status check may not have completed yet"),
	}
	a.networkProblem = a.runtimeProblem
	a.probes.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a.folders = localvolumes.New(localvolumes.Config{
		Dir: cfg.LocalVolumesDir, NodeName: cfg.NodeName, Client: cfg.Client, Events: a.events, Simulated: cfg.Simulated,
		Report: func(ctx context.Context) error { return a.node.Report(ctx) },
		InUse:  func(volume string) (bool, error) { return a.volumes.LocalVolumeInUse(volume) },
		Logger: cfg.Logger, Registerer: cfg.Registerer,
	})
	a.node, err = node.New(node.Config{
		Name: cfg.NodeName, Client: cfg.Client, Events: a.events, IP: cfg.NodeIP, Port: cfg.Port.Number(), Labels: cfg.Labels,
		MaxPods: cfg.MaxPods, DataDir: cfg.DataDir, Runtime: cfg.RuntimeVersion.Name, RuntimeVersion: cfg.RuntimeVersion.Version,
		Simulated: cfg.Simulated, Ready: a.problem, Conditions: cfg.Conditions, Logger: cfg.Logger,
		LocalVolumes: cfg.LocalVolumesDir, VolumesInUse: a.folders.List, LeaseDuration: cfg.LeaseDuration,
	})
	if err != nil {
		return nil, fmt.Errorf("starting the node agent: %w", err)
	}
	if a.sysctls, err = admit.NewSysctls(a.node.Object().Status.NodeInfo.KernelVersion, cfg.AllowedUnsafeSysctls); err != nil {
		return nil, fmt.Errorf("starting the node agent: %w", err)
	}
	service := "nodeagent/" + cfg.NodeName
	refs := objectcache.New(cfg.Client, cfg.Logger)
	a.status = status.NewWriter(status.WriterConfig{
		Client: cfg.Client, Logger: cfg.Logger, Registerer: cfg.Registerer, Trace: cfg.Trace, Service: service,
	})
	a.volumes = volumes.New(volumes.Config{
		Dir: filepath.Join(cfg.DataDir, "pods"), References: refs, Client: cfg.Client, Claims: refs, Folders: a.folders,
		NodeLabels:  func() map[string]string { return a.node.Object().Labels },
		Allocatable: func() corev1.ResourceList { return a.node.Object().Status.Allocatable },
		Simulated:   cfg.Simulated, Logger: cfg.Logger,
	})
	a.prober = prober.New(prober.Config{
		Exec: cfg.Runtime, Dial: cfg.Dial, State: a.pleg.Pod, HostIP: cfg.NodeIP, Registerer: a.probes, Logger: cfg.Logger,
		Event: func(pod *corev1.Pod, container, eventType, reason, format string, args ...any) {
			a.events.EventAbout(podlifecycle.ContainerReference(pod, container), nil, eventType, reason, format, args...)
		},
	})
	a.lifecycle = podlifecycle.New(podlifecycle.Config{
		Runtime: cfg.Runtime, RuntimeName: cfg.RuntimeVersion.Name, NetworkReady: a.networkReady,
		Images:  images.New(images.Config{Runtime: cfg.Runtime, Logger: cfg.Logger}),
		Volumes: a.volumes, References: refs, Prober: a.prober, Status: a.status, Events: a.events,
		Node: a.node.Object, NodeIPs: []string{cfg.NodeIP}, LogDir: cfg.LogDir,
		SeccompDir:  filepath.Join(cfg.DataDir, "seccomp"),
		MaskedPaths: node.ThrottlePaths(), HugePageSizes: node.HugePageSizes(), CgroupV2: node.CgroupV2(),
		ResolverConfig: ResolverConfig, ClusterDNS: cfg.ClusterDNS, ClusterDomain: cfg.ClusterDomain, Changed: a.pleg.Nudge,
		Dial: cfg.Dial, Service: service, Trace: cfg.Trace, Logger: cfg.Logger,
	})
	a.logs = logrotate.New(logrotate.Config{Reopen: cfg.Runtime.ReopenLog, Containers: a.containers, Logger: cfg.Logger})
	a.stats = stats.New(stats.Config{
		NodeName: cfg.NodeName, Runtime: cfg.Runtime, Pods: a.held, Wanted: a.pods.Get, VolumePaths: a.volumes.Paths,
		DataDir: cfg.DataDir, LocalVolumesDir: cfg.LocalVolumesDir, Proc: os.DirFS("/proc"), Logger: cfg.Logger,
	})
	a.workers = podworkers.New(podworkers.Config{Syncer: a.lifecycle, Cache: a.pleg, Logger: cfg.Logger, Unread: a.unread})
	a.shutdown = a.newShutdown()
	a.factory = informer.NewFactory(informer.FactoryConfig{
		Source: cfg.Source, Table: cfg.Client.Table(), Logger: cfg.Logger, Registerer: cfg.Registerer,
		Trace: cfg.Trace, Service: service,
	})
	metric.Register(cfg.Registerer, newMetrics(a))
	return a, nil
}

// unread records that nothing can be done to a pod, since the runtime cannot read it.
func (a *Agent) unread(pod *corev1.Pod, err error) {
	a.events.Event(pod, corev1.EventTypeWarning, "FailedSync", "error determining status: %s", runtime.Describe(err))
}

// Address returns the node's address.
func (a *Agent) Address() string { return a.cfg.NodeIP }

// Node returns the node's Node, without a UID until it is registered. It is shared: do not modify it.
func (a *Agent) Node() *corev1.Node { return a.node.Object() }

// Poke has the node's status checked at once, since its Conditions may have changed.
func (a *Agent) Poke() { a.node.Poke() }

// Event records an Event about an object of the API.
func (a *Agent) Event(object apiruntime.Object, eventType, reason, message string) {
	if about, ok := object.(scheme.Object); ok {
		a.events.Event(about, eventType, reason, "%s", message)
	}
}

// Watchers returns what the agent watches.
func (a *Agent) Watchers() []watcher.Status { return a.factory.Watchers() }

// watchRuntime refreshes the runtime's readiness every statusPeriod until ctx ends.
func (a *Agent) watchRuntime(ctx context.Context) error {
	for backoff.Sleep(ctx, statusPeriod) {
		a.checkRuntime(ctx)
	}
	return nil
}

// checkRuntime queries the runtime's readiness and triggers a node status check if it changed.
func (a *Agent) checkRuntime(ctx context.Context) {
	s, err := a.cfg.Runtime.Status(ctx)
	var problem, network error
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		problem = fmt.Errorf("container runtime is down: %s", runtime.Describe(err))
		network = problem
	case !s.RuntimeReady:
		problem = errors.New(s.Message)
		network = problem
	case !s.NetworkReady:
		network = errors.New(s.Message)
		problem = network
	}
	a.mu.Lock()
	changed := (a.runtimeProblem == nil) != (problem == nil)
	a.runtimeProblem, a.networkProblem = problem, network
	a.mu.Unlock()
	if changed {
		a.node.Poke()
	}
}

// ready returns the reason why the runtime cannot run pods; nil when it can.
func (a *Agent) ready(context.Context) error {
	a.mu.Lock()
	problem := a.runtimeProblem
	a.mu.Unlock()
	if problem != nil {
		return problem
	}
	if _, listed := a.pleg.Pods(); !listed.IsZero() && time.Since(listed) > pleg.Healthy {
		return fmt.Errorf("PLEG is not healthy: pleg was last seen active %v ago; threshold is %v", time.Since(listed).Round(time.Second), pleg.Healthy)
	}
	return nil
}

func (a *Agent) networkReady() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.networkProblem
}

// Ready returns the reason why the agent cannot run pods; nil when it can.
func (a *Agent) Ready(ctx context.Context) error {
	a.mu.Lock()
	synced := a.synced
	a.mu.Unlock()
	if synced == nil || !synced.HasSynced() {
		return errors.New("the node's pods are not known yet")
	}
	return a.problem(ctx)
}
