package simulated

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// TestUsage checks what containers use, as their pods say, and by what they are selected.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := create(t, config(t.TempDir()))
		usual, _ := start(t, r, pod("usual", nil))
		busy, busyContainer := start(t, r, pod("busy", map[string]string{
			AnnotationPrefix + keyCPUUsage: "250m", AnnotationPrefix + keyMemoryUsage: "1Gi", AnnotationPrefix + keyMemoryUsage + ".main": "64Mi",
		}))
		time.Sleep(10 * time.Second)
		pods, err := r.ListPodSandboxStats(t.Context(), &cri.ListPodSandboxStatsRequest{})
		if err != nil || len(pods.GetStats()) != 2 {
			t.Fatalf("got %v, %v", pods, err)
		}
		for _, s := range pods.GetStats() {
			cores, memory := uint64(1e6), uint64(4<<20)
			if s.GetAttributes().GetId() == busy {
				cores, memory = 25e7, 64<<20
			}
			linux := s.GetLinux()
			if len(linux.GetContainers()) != 1 {
				t.Fatalf("%v", s)
			}
			for name, cpu := range map[string]*cri.CpuUsage{"sandbox": linux.GetCpu(), "container": linux.GetContainers()[0].GetCpu()} {
				if cpu.GetUsageNanoCores().GetValue() != cores || cpu.GetUsageCoreNanoSeconds().GetValue() != 10*cores {
					t.Errorf("%s of %s: %v", name, s.GetAttributes().GetMetadata().GetUid(), cpu)
				}
			}
			if got := linux.GetMemory().GetWorkingSetBytes().GetValue(); got != memory || linux.GetProcess().GetProcessCount().GetValue() != 1 {
				t.Errorf("memory of %s: %d", s.GetAttributes().GetMetadata().GetUid(), got)
			}
		}
		one, err := r.ListPodSandboxStats(t.Context(), &cri.ListPodSandboxStatsRequest{Filter: &cri.PodSandboxStatsFilter{Id: usual}})
		if err != nil || len(one.GetStats()) != 1 || one.GetStats()[0].GetAttributes().GetId() != usual {
			t.Errorf("by ID: %v, %v", one, err)
		}
		for name, filter := range map[string]*cri.ContainerStatsFilter{"ID": {Id: busyContainer}, "sandbox": {PodSandboxId: busy}} {
			got, err := r.ListContainerStats(t.Context(), &cri.ListContainerStatsRequest{Filter: filter})
			if err != nil || len(got.GetStats()) != 1 || got.GetStats()[0].GetAttributes().GetId() != busyContainer {
				t.Errorf("by %s: %v, %v", name, got, err)
			}
		}
		if none, err := r.ListContainerStats(t.Context(), &cri.ListContainerStatsRequest{
			Filter: &cri.ContainerStatsFilter{LabelSelector: map[string]string{"no": "such"}},
		}); err != nil || len(none.GetStats()) != 0 {
			t.Errorf("by label: %v, %v", none, err)
		}
		if _, err := r.StopContainer(t.Context(), &cri.StopContainerRequest{ContainerId: busyContainer}); err != nil {
			t.Fatal(err)
		}
		if left, err := r.ListContainerStats(t.Context(), &cri.ListContainerStatsRequest{}); err != nil || len(left.GetStats()) != 1 {
			t.Errorf("after one has ended: %v, %v", left, err)
		}
		ended, err := r.ContainerStats(t.Context(), &cri.ContainerStatsRequest{ContainerId: busyContainer})
		if err != nil || ended.GetStats().GetCpu() != nil || ended.GetStats().GetMemory() != nil {
			t.Errorf("an ended container uses %v, %v", ended, err)
		}
		idle, err := r.PodSandboxStats(t.Context(), &cri.PodSandboxStatsRequest{PodSandboxId: busy})
		if err != nil || idle.GetStats().GetLinux().GetCpu().GetUsageNanoCores().GetValue() != 0 {
			t.Errorf("a sandbox without containers uses %v, %v", idle, err)
		}
	})
}

// TestUsageFaults checks that a pod with an unreadable use is refused, and that what is missing is an error.
func TestUsageFaults(t *testing.T) {
	r := create(t, config(t.TempDir()))
	for _, key := range []string{keyCPUUsage, keyMemoryUsage} {
		for _, text := range []string{"much", "-1", "1e30", ""} {
			if _, err := r.cfg.behaviourOf(pod("a", map[string]string{AnnotationPrefix + key: text}), &cri.ContainerConfig{}); err == nil ||
				!strings.Contains(err.Error(), key) {
				t.Errorf("%s %q: %v", key, text, err)
			}
		}
	}
	if _, err := r.PodSandboxStats(t.Context(), &cri.PodSandboxStatsRequest{PodSandboxId: "none"}); err == nil {
		t.Error("a missing sandbox uses something")
	}
	if _, err := r.ContainerStats(t.Context(), &cri.ContainerStatsRequest{ContainerId: "none"}); err == nil {
		t.Error("a missing container uses something")
	}
}
