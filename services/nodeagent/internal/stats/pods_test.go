package stats

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// TestAddUp checks the sums of a pod whose containers report different things.
func TestAddUp(t *testing.T) {
	at := metav1.NewTime(time.Unix(1700000000, 0))
	containers := []statsapi.ContainerStats{
		{
			CPU:    &statsapi.CPUStats{Time: at, UsageCoreNanoSeconds: ptr(10), UsageNanoCores: ptr(1)},
			Memory: &statsapi.MemoryStats{Time: at, WorkingSetBytes: ptr(100), RSSBytes: ptr(50), PageFaults: ptr(3)},
			Swap:   &statsapi.SwapStats{Time: at, SwapUsageBytes: ptr(5)},
		},
		{CPU: &statsapi.CPUStats{Time: at, UsageCoreNanoSeconds: ptr(20)}, Memory: &statsapi.MemoryStats{Time: at, WorkingSetBytes: ptr(200)}},
		{Name: "idle"},
	}
	sum := statsapi.PodStats{Containers: containers}
	addUp(&sum)
	if *sum.CPU.UsageCoreNanoSeconds != 30 || *sum.CPU.UsageNanoCores != 1 || sum.CPU.Time != at {
		t.Errorf("the CPU is %+v", sum.CPU)
	}
	if *sum.Memory.WorkingSetBytes != 300 || *sum.Memory.RSSBytes != 50 || *sum.Memory.PageFaults != 3 || sum.Memory.UsageBytes != nil {
		t.Errorf("the memory is %+v", sum.Memory)
	}
	if *sum.Swap.SwapUsageBytes != 5 || sum.Swap.SwapAvailableBytes != nil {
		t.Errorf("the swap space is %+v", sum.Swap)
	}
	if *containers[0].CPU.UsageCoreNanoSeconds != 10 || *containers[0].Memory.WorkingSetBytes != 100 {
		t.Errorf("adding up changed a container: %+v", containers[0])
	}
	known := statsapi.PodStats{Containers: containers, CPU: &statsapi.CPUStats{UsageCoreNanoSeconds: ptr(7)}}
	addUp(&known)
	if *known.CPU.UsageCoreNanoSeconds != 7 || *known.Memory.WorkingSetBytes != 300 {
		t.Errorf("what the runtime reports of the pod is replaced: %+v", known)
	}
	empty := statsapi.PodStats{}
	if addUp(&empty); empty.CPU != nil || empty.Memory != nil || empty.Swap != nil {
		t.Errorf("a pod without containers uses %+v", empty)
	}
}

// TestConversions checks parts that the runtime may leave out.
func TestConversions(t *testing.T) {
	if memory(nil) != nil || waits(nil) != nil || pressure(nil) != nil || network(nil) != nil || (&Provider{}).cpu(nil, "x") != nil {
		t.Error("what is not reported is there")
	}
	io := waits(&runtime.IOUsage{At: time.Unix(5, 0), Pressure: &runtime.Pressure{Some: runtime.Stall{Total: 9, Avg10: 1.5}, Full: runtime.Stall{Total: 4}}})
	if io.Time.Unix() != 5 || io.PSI.Some.Total != 9 || io.PSI.Some.Avg10 != 1.5 || io.PSI.Full.Total != 4 {
		t.Errorf("waiting for disks became %+v", io)
	}
	traffic := network(&runtime.NetworkUsage{
		Default: runtime.InterfaceUsage{Name: "eth0", TxBytes: ptr(1)}, Interfaces: []runtime.InterfaceUsage{{Name: "eth1", RxErrors: ptr(2)}},
	})
	if traffic.Name != "eth0" || *traffic.TxBytes != 1 || len(traffic.Interfaces) != 1 || *traffic.Interfaces[0].RxErrors != 2 {
		t.Errorf("traffic became %+v", traffic)
	}
}
