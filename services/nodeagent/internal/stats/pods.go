package stats

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// Pod is a running pod, and what the runtime reports of its use.
type Pod struct {
	State   *podstate.Pod
	Sandbox *runtime.Sandbox
	// Usage has no CPU, memory and network if the runtime tells only what containers use.
	Usage runtime.SandboxUsage
	// Containers are the running ones with a use, in the order of Usage.
	Containers []Container
}

// Container is a running container, and what the runtime reports of its use.
type Container struct {
	State *runtime.Container
	Usage *runtime.ContainerUsage
}

// Pods asks the runtime what the running pods use. They are sorted by namespace and name.
func (p *Provider) Pods(ctx context.Context) ([]Pod, error) {
	usages, err := p.usages(ctx)
	if err != nil {
		return nil, err
	}
	var pods []Pod
	states := p.cfg.Pods()
	for _, uid := range slices.Sorted(maps.Keys(states)) {
		state := states[uid]
		sandbox := state.ReadySandbox()
		if sandbox == nil {
			continue
		}
		usage, ok := usages[sandbox.ID]
		if !ok {
			continue
		}
		pod := Pod{State: state, Sandbox: sandbox, Usage: usage}
		running := map[string]*runtime.Container{}
		for _, c := range state.Running() {
			if c.SandboxID == sandbox.ID {
				running[c.ID] = c
			}
		}
		for i := range usage.Containers {
			one := &usage.Containers[i]
			if c := running[one.ID]; c != nil && (one.CPU != nil || one.Memory != nil) {
				pod.Containers = append(pod.Containers, Container{c, one})
			}
		}
		pods = append(pods, pod)
	}
	slices.SortStableFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.State.Namespace, b.State.Namespace), cmp.Compare(a.State.Name, b.State.Name))
	})
	return pods, nil
}

// retryAfter is how long the runtime is not asked again what sandboxes use, after it could not tell.
const retryAfter = 5 * time.Minute

// usages returns what sandboxes and their containers use, by the sandbox's ID. Runtimes that cannot tell what
// sandboxes use are asked only about containers.
func (p *Provider) usages(ctx context.Context) (map[string]runtime.SandboxUsage, error) {
	found := map[string]runtime.SandboxUsage{}
	p.mu.Lock()
	ask := time.Since(p.refused) >= retryAfter || p.refused.IsZero()
	p.mu.Unlock()
	if ask {
		sandboxes, err := p.cfg.Runtime.SandboxUsages(ctx)
		switch {
		case err == nil:
			for _, s := range sandboxes {
				found[s.ID] = s
			}
			return found, nil
		case ctx.Err() != nil || errors.Is(err, runtime.ErrUnavailable) || errors.Is(err, runtime.ErrTimeout):
			return nil, err
		}
		p.cfg.Logger.Debug("the container runtime does not tell what sandboxes use", "err", err)
		p.mu.Lock()
		p.refused = time.Now()
		p.mu.Unlock()
	}
	containers, err := p.cfg.Runtime.ContainerUsages(ctx)
	if err != nil {
		return nil, err
	}
	sandboxOf := map[string]string{}
	for _, state := range p.cfg.Pods() {
		for i := range state.Containers {
			sandboxOf[state.Containers[i].ID] = state.Containers[i].SandboxID
		}
	}
	for _, c := range containers {
		if id := sandboxOf[c.ID]; id != "" {
			s := found[id]
			s.ID, s.Containers = id, append(s.Containers, c)
			found[id] = s
		}
	}
	return found, nil
}

// podStats describes the use of a pod; without disks, only its CPU and memory.
func (p *Provider) podStats(pod *Pod, d *disks, now metav1.Time) statsapi.PodStats {
	found := statsapi.PodStats{
		PodRef:     statsapi.PodReference{Name: pod.State.Name, Namespace: pod.State.Namespace, UID: pod.State.UID},
		StartTime:  metav1.NewTime(pod.Sandbox.CreatedAt),
		Containers: []statsapi.ContainerStats{},
		CPU:        p.cpu(pod.Usage.CPU, pod.Sandbox.ID), Memory: memory(pod.Usage.Memory),
	}
	for i := range pod.Containers {
		found.Containers = append(found.Containers, p.containerStats(&pod.Containers[i], d, now))
	}
	addUp(&found)
	if d == nil {
		return found
	}
	found.Network, found.IO = network(pod.Usage.Network), waits(pod.Usage.IO)
	if pod.Usage.Processes != nil {
		found.ProcessStats = &statsapi.ProcessStats{ProcessCount: pod.Usage.Processes}
	}
	found.VolumeStats = p.volumes(p.cfg.Wanted(pod.State.UID), d, now)
	found.EphemeralStorage = ephemeralStorage(&found, d, now)
	return found
}

func (p *Provider) containerStats(c *Container, d *disks, now metav1.Time) statsapi.ContainerStats {
	found := statsapi.ContainerStats{
		Name: c.State.Name, StartTime: metav1.NewTime(c.State.CreatedAt),
		CPU: p.cpu(c.Usage.CPU, c.State.ID), Memory: memory(c.Usage.Memory),
	}
	if swap := c.Usage.Swap; swap != nil {
		found.Swap = &statsapi.SwapStats{Time: metav1.NewTime(swap.At), SwapAvailableBytes: swap.Available, SwapUsageBytes: swap.Usage}
	}
	if d == nil {
		return found
	}
	found.IO, found.Logs = waits(c.Usage.IO), d.logs(c.State, now)
	if layer := c.Usage.Writable; layer != nil {
		found.Rootfs = used(d.layer(layer.Mountpoint, now), layer.Used, layer.Inodes, metav1.NewTime(layer.At))
	}
	return found
}

// cpu describes the use of CPU of a container or sandbox. A runtime that has no earlier sample reports a rate
// of 0, or none.
func (p *Provider) cpu(u *runtime.CPUUsage, id string) *statsapi.CPUStats {
	if u == nil {
		return nil
	}
	found := &statsapi.CPUStats{
		Time: metav1.NewTime(u.At), UsageNanoCores: u.NanoCores, UsageCoreNanoSeconds: u.CoreNanoSeconds, PSI: pressure(u.Pressure),
	}
	if u.NanoCores == nil || *u.NanoCores == 0 {
		if own := p.rates.of(id); own != nil {
			found.UsageNanoCores = own
		}
	}
	return found
}

func memory(u *runtime.MemoryUsage) *statsapi.MemoryStats {
	if u == nil {
		return nil
	}
	return &statsapi.MemoryStats{
		Time: metav1.NewTime(u.At), AvailableBytes: u.Available, UsageBytes: u.Usage, WorkingSetBytes: u.WorkingSet, RSSBytes: u.RSS,
		PageFaults: u.PageFaults, MajorPageFaults: u.MajorPageFaults, PSI: pressure(u.Pressure),
	}
}

func waits(u *runtime.IOUsage) *statsapi.IOStats {
	if u == nil {
		return nil
	}
	return &statsapi.IOStats{Time: metav1.NewTime(u.At), PSI: pressure(u.Pressure)}
}

func pressure(p *runtime.Pressure) *statsapi.PSIStats {
	if p == nil {
		return nil
	}
	return &statsapi.PSIStats{Some: statsapi.PSIData(p.Some), Full: statsapi.PSIData(p.Full)}
}

func network(u *runtime.NetworkUsage) *statsapi.NetworkStats {
	if u == nil {
		return nil
	}
	found := &statsapi.NetworkStats{Time: metav1.NewTime(u.At), InterfaceStats: statsapi.InterfaceStats(u.Default)}
	for _, one := range u.Interfaces {
		found.Interfaces = append(found.Interfaces, statsapi.InterfaceStats(one))
	}
	return found
}

// addUp sets what is known of a pod only as the sum of its containers.
func addUp(pod *statsapi.PodStats) {
	withCPU, withMemory := pod.CPU == nil, pod.Memory == nil
	for i := range pod.Containers {
		c := &pod.Containers[i]
		if withCPU && c.CPU != nil {
			if pod.CPU == nil {
				pod.CPU = &statsapi.CPUStats{}
			}
			pod.CPU.Time = c.CPU.Time
			add(&pod.CPU.UsageCoreNanoSeconds, c.CPU.UsageCoreNanoSeconds)
			add(&pod.CPU.UsageNanoCores, c.CPU.UsageNanoCores)
		}
		if withMemory && c.Memory != nil {
			if pod.Memory == nil {
				pod.Memory = &statsapi.MemoryStats{}
			}
			pod.Memory.Time = c.Memory.Time
			add(&pod.Memory.AvailableBytes, c.Memory.AvailableBytes)
			add(&pod.Memory.UsageBytes, c.Memory.UsageBytes)
			add(&pod.Memory.WorkingSetBytes, c.Memory.WorkingSetBytes)
			add(&pod.Memory.RSSBytes, c.Memory.RSSBytes)
			add(&pod.Memory.PageFaults, c.Memory.PageFaults)
			add(&pod.Memory.MajorPageFaults, c.Memory.MajorPageFaults)
		}
		if c.Swap != nil {
			if pod.Swap == nil {
				pod.Swap = &statsapi.SwapStats{}
			}
			pod.Swap.Time = c.Swap.Time
			add(&pod.Swap.SwapAvailableBytes, c.Swap.SwapAvailableBytes)
			add(&pod.Swap.SwapUsageBytes, c.Swap.SwapUsageBytes)
		}
	}
}

// add adds a number, if it is known, to a sum, which is nil before the first.
func add(sum **uint64, number *uint64) {
	if number == nil {
		return
	}
	total := *number
	if *sum != nil {
		total += **sum
	}
	*sum = &total
}
