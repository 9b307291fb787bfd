package podlifecycle

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podworkers"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// preStop gives a container a hook.
func preStop(pod *corev1.Pod, container string, handler corev1.LifecycleHandler) {
	containerOf(pod, container).Lifecycle = &corev1.Lifecycle{PreStop: &handler}
}

func TestTerminate(t *testing.T) {
	exec := corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"bye"}}}
	sleep := corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 4}}
	for _, c := range []struct {
		name, have string
		grace      int64
		hook       corev1.LifecycleHandler // of a
		takes      map[string]time.Duration
		faults     string
		did, told  string
		// took is the duration of the termination.
		took time.Duration
		fail bool
	}{
		{name: "one container", have: "box a=Running", grace: 30, did: "stop a 30s, halt box-0", told: "Killing"},
		{name: "nothing runs", have: "deadbox a=Exited", grace: 30},
		{name: "at once", have: "box a=Running", grace: 0, hook: exec, did: "stop a 2s, halt box-0", told: "Killing"},
		{name: "side by side", have: "box a=Running b=Running", grace: 30, takes: map[string]time.Duration{"stop a": 9 * time.Second, "stop b": 5 * time.Second},
			did: "stop b 30s, stop a 30s, halt box-0", told: "Killing Killing", took: 9 * time.Second},
		{name: "sidecars last, in reverse order", have: "box s-1=Running s-2=Running a=Running", grace: 30,
			takes: map[string]time.Duration{"stop a": 10 * time.Second, "stop s-2": time.Second},
			did:   "stop a 30s, stop s-2 20s, stop s-1 19s, halt box-0", told: "Killing Killing Killing", took: 11 * time.Second},
		{name: "sidecars do not wait for ephemeral containers", have: "box s-1=Running a=Running e-1=Running", grace: 30,
			takes: map[string]time.Duration{"stop e-1": 20 * time.Second, "stop a": 5 * time.Second, "stop s-1": time.Second},
			did:   "stop a 30s, stop s-1 25s, stop e-1 30s, halt box-0", told: "Killing Killing Killing", took: 20 * time.Second},
		{name: "sidecars have some time left", have: "box s-1=Running a=Running", grace: 5, takes: map[string]time.Duration{"stop a": 6 * time.Second},
			did: "stop a 5s, stop s-1 2s, halt box-0", told: "Killing Killing", took: 6 * time.Second},
		{name: "a hook takes of the grace period", have: "box a=Running", grace: 30, hook: exec, takes: map[string]time.Duration{"exec bye": 10 * time.Second},
			did: "exec bye, stop a 20s, halt box-0", told: "Killing", took: 10 * time.Second},
		{name: "a hook takes too long", have: "box a=Running", grace: 30, hook: exec, takes: map[string]time.Duration{"exec bye": time.Hour},
			did: "stop a 2s, halt box-0", told: "Killing UnfinishedPreStopHook", took: 30 * time.Second},
		{name: "a hook fails", have: "box a=Running", grace: 30, hook: exec, faults: "exec bye: exit 1",
			did: "exec bye, stop a 30s, halt box-0", told: "Killing FailedPreStopHook"},
		{name: "a hook sleeps", have: "box a=Running", grace: 30, hook: sleep, did: "stop a 26s, halt box-0", told: "Killing", took: 4 * time.Second},
		{name: "an unknown hook", have: "box a=Running", grace: 30, hook: corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}},
			did: "stop a 30s, halt box-0", told: "Killing FailedPreStopHook"},
		{name: "no hook for a container of unknown state", have: "box a=Unknown", grace: 30, hook: exec, did: "stop a 30s, halt box-0", told: "Killing"},
		{name: "one cannot be stopped", have: "box a=Running b=Running", grace: 30, takes: map[string]time.Duration{"stop b": time.Second}, faults: "stop a: busy",
			did: "stop a 30s, stop b 30s", told: "Killing Killing", took: time.Second, fail: true},
		{name: "never started", have: "box a=Created", grace: 30, did: "stop a 2s, remove a, halt box-0"},
		{name: "being started by a caller that is gone", have: "box a=Created", grace: 30, faults: "remove a: it is starting", did: "stop a 2s, remove a", fail: true},
		{name: "the sandbox cannot be stopped", have: "box a=Running", grace: 30, faults: "halt: CNI", did: "stop a 30s, halt box-0",
			told: "Killing FailedKillPod", fail: true},
		{name: "a container that the spec lost", have: "box a=Running old=Running", grace: 3, takes: map[string]time.Duration{"stop a": time.Second},
			did: "stop old 3s, stop a 3s, halt box-0", told: "Killing Killing", took: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				pod := podOf(corev1.RestartPolicyAlways, "s-1", "s-2", "a", "b", "e-1")
				w.have(pod, c.have)
				preStop(pod, "a", c.hook)
				if c.hook == (corev1.LifecycleHandler{}) {
					containerOf(pod, "a").Lifecycle = nil
				}
				maps.Copy(w.takes, c.takes)
				w.fail(c.faults)
				began := time.Now()
				err := w.Terminate(t.Context(), pod, w.state(), c.grace, nil)
				if took := time.Since(began); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
				if got := w.did(); got != c.did {
					t.Errorf("it did %q, want %q", got, c.did)
				}
				if got := w.told(); got != c.told {
					t.Errorf("the Events are %q, want %q", got, c.told)
				}
				if (err != nil) != c.fail {
					t.Errorf("the error is %v", err)
				}
			})
		})
	}
}

// TestProbeGrace kills containers whose probes failed; each probe may have its own grace period.
func TestProbeGrace(t *testing.T) {
	own := int64(7)
	for _, c := range []struct {
		name     string
		liveness bool
		grace    *int64
		want     string
	}{
		{"the liveness probe's", true, &own, "stop a 7s"},
		{"the pod's after a liveness probe", true, nil, "stop a 30s"},
		{"the startup probe's", false, &own, "stop a 7s"},
		{"the pod's after a startup probe", false, nil, "stop a 30s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				pod := podOf(corev1.RestartPolicyAlways, "a")
				probe := &corev1.Probe{
					ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"probe"}}},
					FailureThreshold: 1, PeriodSeconds: 1, TimeoutSeconds: 1, TerminationGracePeriodSeconds: c.grace,
				}
				if c.liveness {
					pod.Spec.Containers[0].LivenessProbe = probe
				} else {
					pod.Spec.Containers[0].StartupProbe = probe
				}
				w.have(pod, "box a=Running")
				w.fail("exec probe: exit 1; create a: stop here")
				if _, err := w.Sync(t.Context(), podworkers.Create, pod, w.state()); err != nil {
					t.Fatal(err)
				}
				<-time.After(5 * time.Second)
				if got := strings.ReplaceAll(w.did(), "exec probe, ", ""); got != "exec probe" {
					t.Errorf("before the sync it did %q", got)
				}
				if _, err := w.Sync(t.Context(), podworkers.Sync, pod, w.state()); err == nil {
					t.Error("the container was created")
				}
				if got := w.did(); !strings.HasPrefix(got, c.want+", create a #1") {
					t.Errorf("it did %q, want %q", got, c.want)
				}
			})
		})
	}
}

// TestTerminated writes the last status, and only when nothing can run any more.
func TestTerminated(t *testing.T) {
	kill := &podworkers.Kill{
		Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory",
		Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet"}},
	}
	for _, c := range []struct {
		name, have, did string
		kill            *podworkers.Kill
		phase           corev1.PodPhase
		reason          string
		fail            bool
	}{
		{name: "all succeeded", have: "deadbox a=Exited", phase: corev1.PodSucceeded},
		{name: "one failed", have: "deadbox a=Exited:1", phase: corev1.PodFailed},
		{name: "the node killed it", have: "deadbox a=Exited", kill: kill, phase: corev1.PodFailed, reason: "Evicted"},
		{name: "it never ran", phase: corev1.PodFailed},
		{name: "a container came up late", have: "box a=Running", did: "stop a 2s, halt box-0", fail: true},
		{name: "a container was created late", have: "deadbox a=Created", did: "stop a 2s, remove a", fail: true},
		{name: "a sandbox came up late", have: "box", did: "halt box-0", fail: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				pod := podOf(corev1.RestartPolicyNever, "a")
				dir := w.cfg.Volumes.PodDir("u")
				if err := os.MkdirAll(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				if c.kill != nil {
					if err := w.Terminate(t.Context(), pod, w.state(), 0, c.kill); err != nil {
						t.Fatal(err)
					}
				}
				w.have(pod, c.have)
				err := w.Terminated(t.Context(), pod, w.state())
				if got := w.did(); got != c.did {
					t.Errorf("it did %q, want %q", got, c.did)
				}
				_, left := os.Stat(dir)
				if (err != nil) != c.fail || os.IsNotExist(left) == c.fail {
					t.Fatalf("the error is %v; the pod's directory: %v", err, left)
				}
				if c.fail {
					return
				}
				s := w.cfg.Status.Get(pod)
				if s.Phase != c.phase || s.Reason != c.reason {
					t.Errorf("the phase is %s, the reason %q", s.Phase, s.Reason)
				}
				disrupted := false
				for _, condition := range s.Conditions {
					disrupted = disrupted || condition.Type == corev1.DisruptionTarget
				}
				if disrupted != (c.kill != nil) {
					t.Errorf("the conditions are %+v", s.Conditions)
				}
				w.Forget("u")
				if len(w.kills)+len(w.reasons) > 0 {
					t.Errorf("it remembers %v and %v", w.kills, w.reasons)
				}
			})
		})
	}
}

func TestTerminateOrphan(t *testing.T) {
	for _, c := range []struct {
		name, have, faults, did string
		fail                    bool
	}{
		{name: "all of it", have: "deadbox box a=Running b=Unknown c=Exited d=Created", did: "stop b 2s, stop a 2s, stop d 2s, remove d, halt box-1"},
		{name: "nothing runs", have: "deadbox a=Exited"},
		{name: "a container stays", have: "box a=Running", faults: "stop a: busy", did: "stop a 2s", fail: true},
		{name: "a created container stays", have: "box a=Created", faults: "remove a: busy", did: "stop a 2s, remove a", fail: true},
		{name: "the sandbox stays", have: "box", faults: "halt: CNI", did: "halt box-0", fail: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				pod := newPod() // Its spec is unknown.
				w.have(pod, c.have)
				w.fail(c.faults)
				err := w.TerminateOrphan(t.Context(), pod, w.state())
				if got := w.did(); got != c.did || (err != nil) != c.fail {
					t.Errorf("it did %q, %v, want %q", got, err, c.did)
				}
			})
		})
	}
}

func TestReject(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		pod := podOf(corev1.RestartPolicyAlways, "a")
		w.Reject(pod, "OutOfcpu", "not enough")
		s := w.cfg.Status.Get(pod)
		if s.Phase != corev1.PodFailed || s.Reason != "OutOfcpu" || s.Message != "Pod was rejected: not enough" || s.QOSClass != corev1.PodQOSBestEffort {
			t.Errorf("the status is %+v", s)
		}
		if got := w.told() + w.did(); got != "OutOfcpu" {
			t.Errorf("it told and did %q", got)
		}
	})
}

// TestCollect removes the dead containers of one pod. The oldest comes first.
func TestCollect(t *testing.T) {
	for _, c := range []struct {
		name   string
		have   []string
		gone   bool
		faults string
		want   string
	}{
		{name: "the newest two stay", have: []string{"box", "a=Exited a=Exited a=Exited a=Exited b=Exited"}, want: "remove a, remove a"},
		{name: "what lives stays", have: []string{"box", "a=Created a=Unknown a=Running a=Exited"}},
		{name: "a dead sandbox without containers", have: []string{"deadbox deadbox box"}, want: "discard box-1, discard box-0"},
		{name: "the newest sandbox stays", have: []string{"deadbox"}},
		{name: "a dead sandbox with a kept container", have: []string{"deadbox", "a=Exited", "box", "a=Running"}},
		{name: "a dead sandbox with a removed container", have: []string{"deadbox", "a=Exited", "box", "a=Exited a=Exited"},
			want: "remove a, discard box-0"},
		{name: "its container cannot be removed", have: []string{"deadbox", "a=Exited", "box", "a=Exited a=Exited"}, faults: "remove a: busy",
			want: "remove a, error"},
		{name: "the pod is gone", have: []string{"deadbox", "a=Exited a=Created"}, gone: true, want: "remove a, remove a, discard box-0"},
		{name: "the sandbox of a gone pod stays up", have: []string{"box", "a=Exited"}, gone: true, want: "remove a"},
		{name: "it cannot be removed", have: []string{"deadbox"}, gone: true, faults: "discard: CNI", want: "discard box-0, error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				pod := podOf(corev1.RestartPolicyAlways, "a", "b")
				for _, have := range c.have {
					w.have(pod, have)
					<-time.After(time.Hour)
				}
				w.fail(c.faults)
				got := ""
				err := w.Collect(t.Context(), w.state(), c.gone)
				if got = w.did(); err != nil {
					got += ", error"
				}
				if got != c.want {
					t.Errorf("it did %q, %v; want %q", got, err, c.want)
				}
			})
		})
	}
}

// TestCollectRemovesLogs: a removed container's log goes with its rotated parts and its link. A
// path outside the log directory, which the runtime reports, is left alone.
func TestCollectRemovesLogs(t *testing.T) {
	for _, gone := range []bool{false, true} {
		inWorld(t, func(t *testing.T, w *world) {
			pod := podOf(corev1.RestartPolicyAlways, "a")
			w.have(pod, "box a=Exited a=Exited a=Exited")
			dir := filepath.Join(podLogDir(w.cfg.LogDir, "default", "web", "u"), "a")
			outside := filepath.Join(w.cfg.LogDir+"-other", "0.log")
			paths := []string{filepath.Join(dir, "0.log"), filepath.Join(dir, "1.log"), outside}
			if gone {
				paths[2], paths[0] = paths[0], paths[2]
			}
			for i, path := range append(paths, filepath.Join(dir, "0.log.20260101-000000.gz")) {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				if i < len(w.containers) {
					w.containers[i].LogPath, w.containers[i].PodName, w.containers[i].Namespace = path, "web", "default"
				}
			}
			oldest := w.containers[0]
			w.linkLog(pod, &pod.Spec.Containers[0], oldest.ID, oldest.LogPath)
			state := w.state()
			state.Name, state.Namespace = "web", "default"
			if err := w.Collect(t.Context(), state, gone); err != nil {
				t.Fatal(err)
			}
			want := map[string]bool{outside: true, filepath.Join(dir, "1.log"): !gone, filepath.Join(dir, "0.log"): false,
				filepath.Join(dir, "0.log.20260101-000000.gz"):                               false,
				filepath.Join(w.cfg.LogDir, "containers", "web_default_a-"+oldest.ID+".log"): false}
			for path, stays := range want {
				if _, err := os.Lstat(path); (err == nil) != stays {
					t.Errorf("gone %t: %s: %v", gone, path, err)
				}
			}
		})
	}
}

// TestAttempt numbers the next container with a name.
func TestAttempt(t *testing.T) {
	pod := podOf(corev1.RestartPolicyAlways, "a")
	restarted := pod.DeepCopy()
	restarted.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", ContainerID: "containerd://x", RestartCount: 4}}
	never := pod.DeepCopy()
	never.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", RestartCount: 4}}
	for _, c := range []struct {
		name string
		pod  *corev1.Pod
		last *runtime.Container
		want uint32
	}{
		{"the first", pod, nil, 0},
		{"the first after an attempt without a container", never, nil, 0},
		{"the runtime lost the containers", restarted, nil, 5},
		{"after one that ended", pod, &runtime.Container{Name: "a", Attempt: 2, State: runtime.Exited}, 3},
		{"after one that never ran", pod, &runtime.Container{Name: "a", Attempt: 2, State: runtime.Created}, 2},
		{"the runtime knows better", restarted, &runtime.Container{Name: "a", Attempt: 9, State: runtime.Exited}, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				state := *w.state()
				if c.last != nil {
					state.Containers = []runtime.Container{*c.last}
				}
				if got := w.attempt(start{pod: c.pod, state: &state}, &c.pod.Spec.Containers[0]); got != c.want {
					t.Errorf("it is %d, want %d", got, c.want)
				}
			})
		})
	}
}
