package runtime

import (
	"context"
	"errors"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// SandboxUsage is what a sandbox and the containers in it use. A part is nil if the runtime does not report
// it.
type SandboxUsage struct {
	ID         string
	CPU        *CPUUsage
	Memory     *MemoryUsage
	IO         *IOUsage
	Network    *NetworkUsage
	Processes  *uint64
	Containers []ContainerUsage
}

// ContainerUsage is what one container uses. A part is nil if the runtime does not report it.
type ContainerUsage struct {
	ID, Name string
	CPU      *CPUUsage
	Memory   *MemoryUsage
	Swap     *SwapUsage
	IO       *IOUsage
	// Writable is the layer of the file system that the container writes to.
	Writable *FilesystemUsage
}

// CPUUsage is CPU time. NanoCores is the recent use, in billionths of a core; CoreNanoSeconds is the sum
// since the start, in nanoseconds of one core.
type CPUUsage struct {
	At                         time.Time
	NanoCores, CoreNanoSeconds *uint64
	Pressure                   *Pressure
}

// MemoryUsage is memory, in bytes. PageFaults and MajorPageFaults are counts since the start.
type MemoryUsage struct {
	At                                time.Time
	WorkingSet, Available, Usage, RSS *uint64
	PageFaults, MajorPageFaults       *uint64
	Pressure                          *Pressure
}

// SwapUsage is swap space, in bytes.
type SwapUsage struct {
	At               time.Time
	Available, Usage *uint64
}

// IOUsage is how long processes waited for disks.
type IOUsage struct {
	At       time.Time
	Pressure *Pressure
}

// Pressure is the kernel's pressure stall information: of some processes, and of all at once.
type Pressure struct{ Some, Full Stall }

// Stall is the time that processes waited: Total in microseconds, and its share, in percent, of the last 10,
// 60 and 300 seconds.
type Stall struct {
	Total                uint64
	Avg10, Avg60, Avg300 float64
}

// NetworkUsage is the traffic of a sandbox's interfaces.
type NetworkUsage struct {
	At         time.Time
	Default    InterfaceUsage
	Interfaces []InterfaceUsage
}

// InterfaceUsage is the traffic of one interface since the start.
type InterfaceUsage struct {
	Name                                 string
	RxBytes, RxErrors, TxBytes, TxErrors *uint64
}

// FilesystemUsage is the use of a file system. Mountpoint is a path on the node, which the runtime chose.
type FilesystemUsage struct {
	At           time.Time
	Mountpoint   string
	Used, Inodes *uint64
}

// SandboxUsages returns what the sandboxes and their containers use. Some runtimes cannot tell it of sandboxes
// without a cgroup of their own; they return an error, and ContainerUsages may still work.
func (c *Client) SandboxUsages(ctx context.Context) ([]SandboxUsage, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := c.runtime.ListPodSandboxStats(ctx, &cri.ListPodSandboxStatsRequest{
		Filter: &cri.PodSandboxStatsFilter{LabelSelector: c.ownLabels()},
	})
	if err != nil {
		return nil, failed("reading what the sandboxes use", err)
	}
	usages := make([]SandboxUsage, 0, len(answer.GetStats()))
	for _, s := range answer.GetStats() {
		linux := s.GetLinux()
		usage := SandboxUsage{
			ID: s.GetAttributes().GetId(), CPU: cpuUsage(linux.GetCpu()), Memory: memoryUsage(linux.GetMemory()),
			IO: ioUsage(linux.GetIo()), Network: networkUsage(linux.GetNetwork()), Processes: value(linux.GetProcess().GetProcessCount()),
		}
		for _, container := range linux.GetContainers() {
			usage.Containers = append(usage.Containers, containerUsage(container))
		}
		usages = append(usages, usage)
	}
	return usages, nil
}

// ContainerUsages returns what the containers use. Ended containers may be missing.
func (c *Client) ContainerUsages(ctx context.Context) ([]ContainerUsage, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	answer, err := c.runtime.ListContainerStats(ctx, &cri.ListContainerStatsRequest{
		Filter: &cri.ContainerStatsFilter{LabelSelector: c.ownLabels()},
	})
	if err != nil {
		return nil, failed("reading what the containers use", err)
	}
	usages := make([]ContainerUsage, 0, len(answer.GetStats()))
	for _, s := range answer.GetStats() {
		usages = append(usages, containerUsage(s))
	}
	return usages, nil
}

// ImageFilesystem returns the use of the file system of images: the first, if the runtime has several.
func (c *Client) ImageFilesystem(ctx context.Context) (*FilesystemUsage, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	const call = "reading what the images use"
	answer, err := c.images.ImageFsInfo(ctx, &cri.ImageFsInfoRequest{})
	if err != nil {
		return nil, failed(call, err)
	}
	for _, usage := range answer.GetImageFilesystems() {
		return filesystemUsage(usage), nil
	}
	return nil, failed(call, errors.New("imageFs information is unavailable"))
}

func containerUsage(s *cri.ContainerStats) ContainerUsage {
	usage := ContainerUsage{
		ID: s.GetAttributes().GetId(), Name: s.GetAttributes().GetMetadata().GetName(),
		CPU: cpuUsage(s.GetCpu()), Memory: memoryUsage(s.GetMemory()), IO: ioUsage(s.GetIo()), Writable: filesystemUsage(s.GetWritableLayer()),
	}
	if swap := s.GetSwap(); swap != nil {
		usage.Swap = &SwapUsage{
			At: moment(swap.GetTimestamp()), Available: value(swap.GetSwapAvailableBytes()), Usage: value(swap.GetSwapUsageBytes()),
		}
	}
	return usage
}

func cpuUsage(u *cri.CpuUsage) *CPUUsage {
	if u == nil {
		return nil
	}
	return &CPUUsage{
		At: moment(u.GetTimestamp()), NanoCores: value(u.GetUsageNanoCores()), CoreNanoSeconds: value(u.GetUsageCoreNanoSeconds()),
		Pressure: pressure(u.GetPsi()),
	}
}

func memoryUsage(u *cri.MemoryUsage) *MemoryUsage {
	if u == nil {
		return nil
	}
	return &MemoryUsage{
		At: moment(u.GetTimestamp()), WorkingSet: value(u.GetWorkingSetBytes()), Available: value(u.GetAvailableBytes()),
		Usage: value(u.GetUsageBytes()), RSS: value(u.GetRssBytes()), PageFaults: value(u.GetPageFaults()),
		MajorPageFaults: value(u.GetMajorPageFaults()), Pressure: pressure(u.GetPsi()),
	}
}

func ioUsage(u *cri.IoUsage) *IOUsage {
	if u == nil {
		return nil
	}
	return &IOUsage{At: moment(u.GetTimestamp()), Pressure: pressure(u.GetPsi())}
}

func networkUsage(u *cri.NetworkUsage) *NetworkUsage {
	if u == nil {
		return nil
	}
	usage := &NetworkUsage{At: moment(u.GetTimestamp()), Default: interfaceUsage(u.GetDefaultInterface())}
	for _, each := range u.GetInterfaces() {
		usage.Interfaces = append(usage.Interfaces, interfaceUsage(each))
	}
	return usage
}

func interfaceUsage(u *cri.NetworkInterfaceUsage) InterfaceUsage {
	return InterfaceUsage{
		Name: u.GetName(), RxBytes: value(u.GetRxBytes()), RxErrors: value(u.GetRxErrors()),
		TxBytes: value(u.GetTxBytes()), TxErrors: value(u.GetTxErrors()),
	}
}

func filesystemUsage(u *cri.FilesystemUsage) *FilesystemUsage {
	if u == nil {
		return nil
	}
	return &FilesystemUsage{
		At: moment(u.GetTimestamp()), Mountpoint: u.GetFsId().GetMountpoint(), Used: value(u.GetUsedBytes()), Inodes: value(u.GetInodesUsed()),
	}
}

func pressure(p *cri.PsiStats) *Pressure {
	if p == nil {
		return nil
	}
	return &Pressure{Some: stall(p.GetSome()), Full: stall(p.GetFull())}
}

func stall(d *cri.PsiData) Stall {
	return Stall{Total: d.GetTotal(), Avg10: d.GetAvg10(), Avg60: d.GetAvg60(), Avg300: d.GetAvg300()}
}

func value(v *cri.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	number := v.GetValue()
	return &number
}
