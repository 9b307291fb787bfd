// Package stats reports what the node, its pods and their containers use, as the kubelet's summary does. It
// asks the container runtime about pods and the kernel about the machine. It never walks through what a
// container wrote.
package stats

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/garboard/garboard/libs/backoff"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// Runtime tells what containers use: it is a *runtime.Client.
type Runtime interface {
	SandboxUsages(ctx context.Context) ([]runtime.SandboxUsage, error)
	ContainerUsages(ctx context.Context) ([]runtime.ContainerUsage, error)
	ImageFilesystem(ctx context.Context) (*runtime.FilesystemUsage, error)
}

// Config configures a Provider. All fields are required, except LocalVolumesDir and VolumePaths.
type Config struct {
	NodeName string
	Runtime  Runtime
	// Pods returns the runtime's pods by UID, as of its last list.
	Pods func() map[string]*podstate.Pod
	// Wanted returns a pod of the API by its UID; nil if there is none.
	Wanted func(uid string) *corev1.Pod
	// VolumePaths returns the paths of a pod's volumes by their names. Only those below DataDir and
	// LocalVolumesDir are looked at.
	VolumePaths func(uid string) map[string]string
	// DataDir is on the file system whose space is the node's.
	DataDir, LocalVolumesDir string
	// Proc is the kernel's /proc.
	Proc   fs.FS
	Logger *slog.Logger
}

// Provider reports what is used. Any goroutine may use it.
type Provider struct {
	cfg     Config
	machine machine
	rates   rates

	mu sync.Mutex
	// refused is when the runtime could not tell what sandboxes use; zero if it could.
	refused time.Time
}

// New returns a Provider. Rates are known only while Run runs, unless the runtime reports them.
func New(cfg Config) *Provider { return &Provider{cfg: cfg, machine: machine{cfg.Proc}} }

// period is the time between two samples of what is used (the kubelet's).
const period = 10 * time.Second

// nodeKey is the key of the whole machine among the rates.
const nodeKey = "/"

// Run samples the CPU time of the node and, unless the runtime reports rates itself, of containers, until ctx
// ends.
func (p *Provider) Run(ctx context.Context) error {
	for {
		if err := p.sample(ctx); err != nil && ctx.Err() == nil {
			p.cfg.Logger.Debug("sampling what containers use failed", "err", err)
		}
		if !backoff.Sleep(ctx, period) {
			return nil
		}
	}
}

// sample records one sample of everything.
func (p *Provider) sample(ctx context.Context) error {
	round := map[string]sample{}
	defer func() { p.rates.replace(round) }()
	if used, _, err := p.machine.processor(); err == nil {
		round[nodeKey] = sample{at: time.Now(), total: used}
	}
	usages, err := p.usages(ctx)
	if err != nil {
		return err
	}
	note := func(id string, cpu *runtime.CPUUsage) {
		if cpu != nil && cpu.CoreNanoSeconds != nil {
			round[id] = sample{at: cpu.At, total: *cpu.CoreNanoSeconds}
		}
	}
	for id, s := range usages {
		note(id, s.CPU)
		for i := range s.Containers {
			note(s.Containers[i].ID, s.Containers[i].CPU)
		}
	}
	return nil
}

// Summary returns what the node and its pods use; without file systems, volumes and networks if only CPU and
// memory are wanted. Errors have the kubelet's texts.
func (p *Provider) Summary(ctx context.Context, onlyCPUAndMemory bool) (*statsapi.Summary, error) {
	now := metav1.Now()
	node, err := p.node(now)
	if err != nil {
		return nil, fmt.Errorf("failed to get root cgroup stats: %w", err)
	}
	var d *disks
	if !onlyCPUAndMemory {
		if d, err = p.disks(ctx, now); err != nil {
			return nil, fmt.Errorf("failed to get imageFs stats: %w", err)
		}
		node.Fs = d.node
		node.Runtime = &statsapi.RuntimeStats{ImageFs: d.image, ContainerFs: d.image}
		node.Network, node.Rlimit = p.machine.network(now), p.machine.processes(now)
		node.IO = &statsapi.IOStats{Time: now, PSI: p.machine.pressure("io")}
	}
	pods, err := p.Pods(ctx)
	if err != nil {
		return nil, fmt.Errorf("failed to list pod stats: %w", err)
	}
	summary := &statsapi.Summary{Node: *node, Pods: []statsapi.PodStats{}}
	for i := range pods {
		summary.Pods = append(summary.Pods, p.podStats(&pods[i], d, now))
	}
	summary.Node.SystemContainers = []statsapi.ContainerStats{ofPods(summary.Pods, now)}
	return summary, nil
}

// node describes the CPU and the memory of the machine.
func (p *Provider) node(now metav1.Time) (*statsapi.NodeStats, error) {
	used, boot, err := p.machine.processor()
	if err != nil {
		return nil, err
	}
	memory, swap, err := p.machine.memory(now)
	if err != nil {
		return nil, err
	}
	memory.PSI = p.machine.pressure("memory")
	return &statsapi.NodeStats{
		NodeName: p.cfg.NodeName, StartTime: metav1.NewTime(boot), Memory: memory, Swap: swap,
		CPU: &statsapi.CPUStats{
			Time: now, UsageCoreNanoSeconds: &used, UsageNanoCores: p.rates.of(nodeKey), PSI: p.machine.pressure("cpu"),
		},
	}, nil
}

// ofPods describes what all pods use, as one of the node's system containers: their sum.
func ofPods(pods []statsapi.PodStats, now metav1.Time) statsapi.ContainerStats {
	all := statsapi.PodStats{}
	for i := range pods {
		all.Containers = append(all.Containers, statsapi.ContainerStats{CPU: pods[i].CPU, Memory: pods[i].Memory})
	}
	addUp(&all)
	found := statsapi.ContainerStats{Name: statsapi.SystemContainerPods, StartTime: now, CPU: all.CPU, Memory: all.Memory}
	for i := range pods {
		if started := pods[i].StartTime; started.Before(&found.StartTime) {
			found.StartTime = started
		}
	}
	return found
}
