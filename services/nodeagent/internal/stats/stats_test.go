package stats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a runtime whose container id-main uses half a core, and reports no rates.
type fake struct {
	began                        time.Time
	rate                         *uint64 // that it reports
	images                       string  // mount point
	sandboxes, containers        error
	sandboxCalls, containerCalls atomic.Int64
}

func ptr(v uint64) *uint64 {
	p := new(uint64)
	*p = v
	return p
}

func (f *fake) container(id, name string) runtime.ContainerUsage {
	now := time.Now()
	return runtime.ContainerUsage{
		ID: id, Name: name,
		CPU:      &runtime.CPUUsage{At: now, NanoCores: f.rate, CoreNanoSeconds: ptr(uint64(now.Sub(f.began)) / 2)},
		Memory:   &runtime.MemoryUsage{At: now, WorkingSet: ptr(100), Usage: ptr(120), RSS: ptr(80)},
		Swap:     &runtime.SwapUsage{At: now, Usage: ptr(7), Available: ptr(8)},
		Writable: &runtime.FilesystemUsage{At: now, Mountpoint: f.images, Used: ptr(1000), Inodes: ptr(10)},
	}
}

func (f *fake) SandboxUsages(context.Context) ([]runtime.SandboxUsage, error) {
	f.sandboxCalls.Add(1)
	if f.sandboxes != nil {
		return nil, f.sandboxes
	}
	return []runtime.SandboxUsage{{
		ID: "box", CPU: &runtime.CPUUsage{At: time.Now(), CoreNanoSeconds: ptr(uint64(time.Since(f.began)))},
		Memory: &runtime.MemoryUsage{At: time.Now(), WorkingSet: ptr(300)}, Processes: ptr(3),
		Network:    &runtime.NetworkUsage{At: time.Now(), Default: runtime.InterfaceUsage{Name: "eth0", RxBytes: ptr(11)}},
		Containers: []runtime.ContainerUsage{f.container("id-main", "main"), f.container("id-old", "main"), {ID: "id-idle", Name: "idle"}},
	}, {ID: "box-of-nobody", Containers: []runtime.ContainerUsage{f.container("x", "x")}}}, nil
}

func (f *fake) ContainerUsages(context.Context) ([]runtime.ContainerUsage, error) {
	f.containerCalls.Add(1)
	return []runtime.ContainerUsage{f.container("id-main", "main"), f.container("id-old", "main"), f.container("id-nobody", "x")}, f.containers
}

func (f *fake) ImageFilesystem(context.Context) (*runtime.FilesystemUsage, error) {
	return &runtime.FilesystemUsage{At: time.Now(), Mountpoint: f.images, Used: ptr(5000)}, nil
}

// provider returns a Provider of a node with the pod web.
func provider(t *testing.T, f *fake) *Provider {
	t.Helper()
	dir := t.TempDir()
	f.began, f.images = time.Now(), dir
	logs := filepath.Join(dir, "logs", "main")
	volume := filepath.Join(dir, "pods", "u1", "cache")
	for _, folder := range []string{logs, volume} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{"0.log": strings.Repeat("x", 10_000), "0.log.1": "y"} {
		if err := os.WriteFile(filepath.Join(logs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// A container must not have the agent count files elsewhere.
	if err := os.Symlink("/etc/passwd", filepath.Join(logs, "link")); err != nil {
		t.Fatal(err)
	}
	state := &podstate.Pod{
		UID: "u1", Name: "web", Namespace: "default",
		Sandboxes: []runtime.Sandbox{{ID: "box", Ready: true, CreatedAt: f.began}, {ID: "box-before"}},
		Containers: []runtime.Container{
			{ID: "id-main", Name: "main", SandboxID: "box", State: runtime.Running, CreatedAt: f.began, LogPath: filepath.Join(logs, "0.log")},
			{ID: "id-idle", Name: "idle", SandboxID: "box", State: runtime.Running},
			{ID: "id-old", Name: "main", SandboxID: "box", State: runtime.Exited},
		},
	}
	gone := &podstate.Pod{UID: "u2", Name: "gone", Namespace: "default", Sandboxes: []runtime.Sandbox{{ID: "box-gone"}}}
	wanted := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u1"}}
	host := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	wanted.Spec.Volumes = []corev1.Volume{
		{Name: "cache", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "claim"}}},
		{Name: "host", VolumeSource: host}, {Name: "elsewhere", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{Name: "late", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	return New(Config{
		NodeName: "n", Runtime: f, DataDir: dir, Proc: proc(), Logger: slog.New(slog.DiscardHandler),
		Pods: func() map[string]*podstate.Pod { return map[string]*podstate.Pod{"u1": state, "u2": gone} },
		Wanted: func(uid string) *corev1.Pod {
			if uid != "u1" {
				t.Errorf("the pod %s was asked for", uid)
			}
			return wanted
		},
		VolumePaths: func(string) map[string]string {
			return map[string]string{"cache": volume, "data": volume, "host": volume, "elsewhere": dir + "/../..", "none": "/"}
		},
	})
}

// TestSummary checks the full summary of a node with one pod.
func TestSummary(t *testing.T) {
	f := &fake{}
	p := provider(t, f)
	got, err := p.Summary(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	node := got.Node
	if node.NodeName != "n" || *node.Memory.WorkingSetBytes != 3<<30 || node.Swap == nil || node.Rlimit == nil || node.Network == nil ||
		*node.Fs.CapacityBytes == 0 || *node.Runtime.ImageFs.UsedBytes != 5000 || *node.Runtime.ImageFs.CapacityBytes == 0 || node.CPU.PSI == nil {
		t.Errorf("the node is %+v", node)
	}
	if len(node.SystemContainers) != 1 || node.SystemContainers[0].Name != "pods" || *node.SystemContainers[0].Memory.WorkingSetBytes != 300 {
		t.Errorf("the system containers are %+v", node.SystemContainers)
	}
	if len(got.Pods) != 1 || got.Pods[0].PodRef != (statsapi.PodReference{Name: "web", Namespace: "default", UID: "u1"}) {
		t.Fatalf("the pods are %+v", got.Pods)
	}
	pod := got.Pods[0]
	if *pod.Memory.WorkingSetBytes != 300 || *pod.Network.RxBytes != 11 || *pod.ProcessStats.ProcessCount != 3 || *pod.Swap.SwapUsageBytes != 7 {
		t.Errorf("the pod is %+v", pod)
	}
	// Neither the ended container nor the one without a use.
	if len(pod.Containers) != 1 || pod.Containers[0].Name != "main" || *pod.Containers[0].Rootfs.UsedBytes != 1000 || pod.Containers[0].Rootfs.CapacityBytes == nil {
		t.Fatalf("the containers are %+v", pod.Containers)
	}
	if logs := pod.Containers[0].Logs; *logs.UsedBytes < 10_000 || *logs.UsedBytes > 64<<10 || *logs.InodesUsed != 3 {
		t.Errorf("the logs take %d bytes in %d files", *logs.UsedBytes, *logs.InodesUsed)
	}
	names := ""
	for _, v := range pod.VolumeStats {
		names += fmt.Sprintf("%s %t %t;", v.Name, v.UsedBytes != nil, v.PVCRef != nil)
	}
	if names != "cache false false;data true true;" {
		t.Errorf("volumes, with use and claim: %s", names)
	}
	if want := 1000 + *pod.Containers[0].Logs.UsedBytes; *pod.EphemeralStorage.UsedBytes != want {
		t.Errorf("the pod takes %d, want %d", *pod.EphemeralStorage.UsedBytes, want)
	}
	brief, err := p.Summary(t.Context(), true)
	if err != nil || brief.Node.Fs != nil || brief.Node.Rlimit != nil || len(brief.Pods) != 1 || brief.Pods[0].VolumeStats != nil ||
		brief.Pods[0].Containers[0].Logs != nil || *brief.Pods[0].Containers[0].Memory.WorkingSetBytes != 100 {
		t.Errorf("of CPU and memory: %+v, %v", brief, err)
	}
}

// TestRatesOfContainers checks rates that the runtime does not report.
func TestRatesOfContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{}
		p := provider(t, f)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		synctest.Wait()
		rates := func() (pod, container *uint64) {
			got, err := p.Summary(t.Context(), true)
			if err != nil {
				t.Fatal(err)
			}
			return got.Pods[0].CPU.UsageNanoCores, got.Pods[0].Containers[0].CPU.UsageNanoCores
		}
		if pod, container := rates(); pod != nil || container != nil {
			t.Errorf("the rates before the second sample are %v and %v", pod, container)
		}
		time.Sleep(period + time.Second)
		if pod, container := rates(); pod == nil || *pod != 1e9 || container == nil || *container != 5e8 {
			t.Errorf("the rates are %v and %v", pod, container)
		}
		f.rate = ptr(0) // As a runtime that has no earlier sample.
		if _, container := rates(); container == nil || *container != 5e8 {
			t.Errorf("with a rate of 0, it is %v", container)
		}
		f.rate = ptr(42)
		if _, container := rates(); *container != 42 {
			t.Errorf("the runtime's rate is %d", *container)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestOnlyContainers checks a runtime that cannot tell what sandboxes use, and is not asked each time.
func TestOnlyContainers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{sandboxes: status.Error(codes.Unknown, "cgroup path is empty")}
		p := provider(t, f)
		for range 3 {
			got, err := p.Summary(t.Context(), true)
			if err != nil || len(got.Pods) != 1 || len(got.Pods[0].Containers) != 1 || *got.Pods[0].Memory.WorkingSetBytes != 100 ||
				got.Pods[0].CPU.UsageCoreNanoSeconds == nil {
				t.Fatalf("%+v, %v", got, err)
			}
		}
		if f.sandboxCalls.Load() != 1 || f.containerCalls.Load() != 3 {
			t.Errorf("the runtime was asked %d and %d times", f.sandboxCalls.Load(), f.containerCalls.Load())
		}
		time.Sleep(retryAfter)
		f.sandboxes = nil
		if got, err := p.Summary(t.Context(), true); err != nil || *got.Pods[0].Memory.WorkingSetBytes != 300 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

// TestSummaryFaults checks the errors of a summary.
func TestSummaryFaults(t *testing.T) {
	f := &fake{sandboxes: runtime.ErrUnavailable}
	p := provider(t, f)
	if _, err := p.Summary(t.Context(), true); !errors.Is(err, runtime.ErrUnavailable) || !strings.HasPrefix(err.Error(), "failed to list pod stats: ") {
		t.Errorf("without a runtime: %v", err)
	}
	if f.containerCalls.Load() != 0 {
		t.Error("a runtime that does not answer was asked again")
	}
	f.sandboxes, f.containers = errors.New("no"), errors.New("neither")
	if _, err := p.Summary(t.Context(), true); err == nil || !strings.Contains(err.Error(), "neither") {
		t.Errorf("with neither: %v", err)
	}
	p.cfg.DataDir += "/gone"
	if _, err := p.Summary(t.Context(), false); err == nil || !strings.HasPrefix(err.Error(), "failed to get imageFs stats: ") {
		t.Errorf("without a data directory: %v", err)
	}
	p.machine.proc = os.DirFS(t.TempDir())
	if _, err := p.Summary(t.Context(), true); err == nil || !strings.HasPrefix(err.Error(), "failed to get root cgroup stats: ") {
		t.Errorf("without a machine: %v", err)
	}
}
