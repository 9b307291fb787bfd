package simulated

import (
	"context"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ListPodSandboxStats returns what the sandboxes that are ready and match the filter use, newest first.
func (r *Runtime) ListPodSandboxStats(_ context.Context, request *cri.ListPodSandboxStatsRequest) (
	*cri.ListPodSandboxStatsResponse, error) {
	filter := request.GetFilter()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.settle(now)
	answer := &cri.ListPodSandboxStatsResponse{}
	for _, s := range sorted(r.sandboxes, func(s *sandbox) time.Time { return s.CreatedAt }) {
		if s.Ready && (filter.GetId() == "" || filter.GetId() == s.ID) && selected(filter.GetLabelSelector(), s.Config.M.GetLabels()) {
			answer.Stats = append(answer.Stats, r.sandboxUsage(s, now))
		}
	}
	return answer, nil
}

// PodSandboxStats returns what a sandbox uses.
func (r *Runtime) PodSandboxStats(_ context.Context, request *cri.PodSandboxStatsRequest) (*cri.PodSandboxStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sandboxes[request.GetPodSandboxId()]
	if s == nil {
		return nil, status.Errorf(codes.NotFound, "failed to find sandbox id %q: not found", request.GetPodSandboxId())
	}
	now := time.Now()
	r.settle(now)
	return &cri.PodSandboxStatsResponse{Stats: r.sandboxUsage(s, now)}, nil
}

// ListContainerStats returns what the running containers that match the filter use, newest first.
func (r *Runtime) ListContainerStats(_ context.Context, request *cri.ListContainerStatsRequest) (*cri.ListContainerStatsResponse, error) {
	filter := request.GetFilter()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.settle(now)
	answer := &cri.ListContainerStatsResponse{}
	for _, c := range sorted(r.containers, createdAt) {
		if c.State != cri.ContainerState_CONTAINER_RUNNING ||
			filter.GetId() != "" && filter.GetId() != c.ID ||
			filter.GetPodSandboxId() != "" && filter.GetPodSandboxId() != c.SandboxID ||
			!selected(filter.GetLabelSelector(), c.Config.M.GetLabels()) {
			continue
		}
		answer.Stats = append(answer.Stats, r.containerUsage(c, now))
	}
	return answer, nil
}

// ContainerStats returns what a container uses.
func (r *Runtime) ContainerStats(_ context.Context, request *cri.ContainerStatsRequest) (*cri.ContainerStatsResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.settle(now)
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, err
	}
	return &cri.ContainerStatsResponse{Stats: r.containerUsage(c, now)}, nil
}

func (r *Runtime) sandboxUsage(s *sandbox, now time.Time) *cri.PodSandboxStats {
	linux := &cri.LinuxPodSandboxStats{}
	var cores, total, memory, processes uint64
	for _, c := range sorted(r.containers, createdAt) {
		if c.SandboxID != s.ID || c.State != cri.ContainerState_CONTAINER_RUNNING {
			continue
		}
		usage := r.containerUsage(c, now)
		linux.Containers = append(linux.Containers, usage)
		cores += usage.GetCpu().GetUsageNanoCores().GetValue()
		total += usage.GetCpu().GetUsageCoreNanoSeconds().GetValue()
		memory += usage.GetMemory().GetWorkingSetBytes().GetValue()
		processes++
	}
	at := now.UnixNano()
	linux.Cpu, linux.Memory = cpuUsage(at, cores, total), memoryUsage(at, memory)
	linux.Process = &cri.ProcessUsage{Timestamp: at, ProcessCount: number(processes)}
	return &cri.PodSandboxStats{Linux: linux, Attributes: &cri.PodSandboxAttributes{
		Id: s.ID, Metadata: s.Config.M.GetMetadata(), Labels: s.Config.M.GetLabels(), Annotations: s.Config.M.GetAnnotations(),
	}}
}

func (r *Runtime) containerUsage(c *container, now time.Time) *cri.ContainerStats {
	at := now.UnixNano()
	stats := &cri.ContainerStats{
		Attributes: &cri.ContainerAttributes{
			Id: c.ID, Metadata: c.Config.M.GetMetadata(), Labels: c.Config.M.GetLabels(), Annotations: c.Config.M.GetAnnotations(),
		},
		WritableLayer: &cri.FilesystemUsage{
			Timestamp: at, FsId: &cri.FilesystemIdentifier{Mountpoint: r.cfg.Dir}, UsedBytes: number(0), InodesUsed: number(0),
		},
	}
	if c.State != cri.ContainerState_CONTAINER_RUNNING {
		return stats
	}
	b := r.behaviour(c)
	ran := max(0, now.Sub(c.StartedAt)).Seconds()
	stats.Cpu = cpuUsage(at, b.nanoCores, uint64(float64(b.nanoCores)*ran))
	stats.Memory = memoryUsage(at, b.memory)
	stats.Swap = &cri.SwapUsage{Timestamp: at, SwapAvailableBytes: number(0), SwapUsageBytes: number(0)}
	return stats
}

func createdAt(c *container) time.Time { return c.CreatedAt }

func cpuUsage(at int64, cores, total uint64) *cri.CpuUsage {
	return &cri.CpuUsage{Timestamp: at, UsageNanoCores: number(cores), UsageCoreNanoSeconds: number(total)}
}

func memoryUsage(at int64, bytes uint64) *cri.MemoryUsage {
	return &cri.MemoryUsage{
		Timestamp: at, WorkingSetBytes: number(bytes), UsageBytes: number(bytes), RssBytes: number(bytes),
		AvailableBytes: number(0), PageFaults: number(0), MajorPageFaults: number(0),
	}
}

func number(value uint64) *cri.UInt64Value { return &cri.UInt64Value{Value: value} }
