package podactions_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// probes has the failed probes by container ID, and the containers whose startup probe has not
// succeeded.
type probes struct {
	failed     map[string]string
	notStarted map[string]bool
}

func (p probes) Failed(id string) (string, bool) { probe, ok := p.failed[id]; return probe, ok }

func (p probes) Started(_ *corev1.Pod, _ *corev1.Container, id string) bool { return !p.notStarted[id] }

// pod returns a pod with these containers; a name that begins with "i-" is an init container, one
// with "s-" a sidecar, with "e-" an ephemeral container.
func pod(policy corev1.RestartPolicy, names ...string) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{RestartPolicy: policy}}
	always := corev1.ContainerRestartPolicyAlways
	for _, name := range names {
		c := corev1.Container{Name: name, Image: "image"}
		switch {
		case strings.HasPrefix(name, "s-"):
			c.RestartPolicy = &always
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case strings.HasPrefix(name, "e-"):
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "image"},
			})
		case strings.HasPrefix(name, "i-"):
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

// container returns a container of the sandbox "box-0" described by "name=State" or
// "name=Exited:code".
func container(text string) runtime.Container {
	name, state, _ := strings.Cut(text, "=")
	state, code, _ := strings.Cut(state, ":")
	c := runtime.Container{
		ID: "id-" + name, Name: name, SandboxID: "box-0", PodUID: "u", State: runtime.ContainerState(state),
		Annotations: map[string]string{podactions.AnnotationHash: podactions.Hash(&corev1.Container{Name: name, Image: "image"})},
	}
	if code != "" {
		if _, err := fmt.Sscan(code, &c.ExitCode); err != nil {
			panic(err)
		}
	}
	return c
}

func state(sandboxes []runtime.Sandbox, containers ...string) *podstate.Pod {
	var list []runtime.Container
	for _, text := range containers {
		list = append(list, container(text))
	}
	if p := podstate.Group(sandboxes, list)["u"]; p != nil {
		return p
	}
	return &podstate.Pod{UID: "u"}
}

func box(attempt uint32, ready bool, ips ...string) runtime.Sandbox {
	return runtime.Sandbox{ID: fmt.Sprintf("box-%d", attempt), PodUID: "u", Attempt: attempt, Ready: ready, IPs: ips, CreatedAt: time.Unix(int64(attempt)+1, 0)}
}

// show formats actions in one line.
func show(a podactions.Actions) string {
	var parts []string
	if a.KillPod {
		parts = append(parts, "killpod")
	}
	if a.CreateSandbox {
		parts = append(parts, fmt.Sprintf("sandbox/%d", a.Attempt))
	}
	for _, k := range a.Kill {
		parts = append(parts, "kill/"+k.Container.Name)
	}
	for _, c := range a.Remove {
		parts = append(parts, "remove/"+c.Name)
	}
	for _, c := range a.StartEphemeral {
		parts = append(parts, "ephemeral/"+c.Name)
	}
	for _, c := range a.StartInit {
		parts = append(parts, "init/"+c.Name)
	}
	for _, c := range a.Start {
		parts = append(parts, "start/"+c.Name)
	}
	return strings.Join(parts, " ")
}

func TestCompute(t *testing.T) {
	up := []runtime.Sandbox{box(0, true, "10.0.0.1")}
	const always, onFailure, never = corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever
	cases := []struct {
		name   string
		pod    *corev1.Pod
		state  *podstate.Pod
		probes probes
		want   string
	}{
		{"a new pod", pod(always, "a", "b"), state(nil), probes{}, "killpod sandbox/0 start/a start/b"},
		{"a new pod with init containers", pod(always, "i-1", "i-2", "a"), state(nil), probes{}, "killpod sandbox/0 init/i-1"},
		{"a sandbox only", pod(always, "a"), state(up), probes{}, "start/a"},
		{"all run", pod(always, "a", "b"), state(up, "a=Running", "b=Running"), probes{}, ""},
		{"one exited, always", pod(always, "a", "b"), state(up, "a=Running", "b=Exited"), probes{}, "start/b"},
		{"one failed, on failure", pod(onFailure, "a", "b"), state(up, "a=Running", "b=Exited:1"), probes{}, "start/b"},
		{"one succeeded, on failure", pod(onFailure, "a", "b"), state(up, "a=Running", "b=Exited"), probes{}, ""},
		{"one failed, never", pod(never, "a", "b"), state(up, "a=Running", "b=Exited:1"), probes{}, ""},
		{"all ended, never", pod(never, "a"), state(up, "a=Exited:1"), probes{}, "killpod"},
		{"all succeeded, on failure", pod(onFailure, "a"), state(up, "a=Exited"), probes{}, "killpod"},
		{"a container of unknown state", pod(always, "a"), state(up, "a=Unknown"), probes{}, "kill/a start/a"},
		{"a container that was never started", pod(never, "a"), state(up, "a=Created"), probes{}, "remove/a start/a"},
		{"the sandbox died", pod(always, "a"), state([]runtime.Sandbox{box(0, false)}, "a=Exited"), probes{}, "killpod sandbox/1 start/a"},
		{"the sandbox died, never", pod(never, "a"), state([]runtime.Sandbox{box(0, false)}, "a=Exited"), probes{}, "killpod"},
		{"the sandbox died before anything ran, never", pod(never, "a"), state([]runtime.Sandbox{box(0, false)}), probes{}, "killpod sandbox/1 start/a"},
		{"the sandbox has no address", pod(always, "a"), state([]runtime.Sandbox{box(0, true)}), probes{}, "killpod sandbox/1 start/a"},
		{"two sandboxes are ready", pod(always, "a"), state([]runtime.Sandbox{box(0, true, "x"), box(1, true, "y")}), probes{}, "killpod sandbox/2 start/a"},
		{"the sandbox died, init containers run again", pod(always, "i-1", "a"), state([]runtime.Sandbox{box(0, false)}, "i-1=Exited", "a=Exited"), probes{}, "killpod sandbox/1 init/i-1"},
		{"the sandbox died when all had succeeded", pod(onFailure, "a"), state([]runtime.Sandbox{box(0, false)}, "a=Exited"), probes{}, "killpod"},
		{"a liveness probe failed", pod(always, "a"), state(up, "a=Running"), probes{failed: map[string]string{"id-a": "liveness"}}, "kill/a start/a"},
		{"a liveness probe failed, never", pod(never, "a", "b"), state(up, "a=Running", "b=Running"), probes{failed: map[string]string{"id-a": "liveness"}}, "kill/a"},
		{"an init container runs", pod(always, "i-1", "i-2", "a"), state(up, "i-1=Running"), probes{}, ""},
		{"an init container succeeded", pod(always, "i-1", "i-2", "a"), state(up, "i-1=Exited"), probes{}, "init/i-2"},
		{"an init container failed", pod(always, "i-1", "a"), state(up, "i-1=Exited:1"), probes{}, "init/i-1"},
		{"an init container failed, never", pod(never, "i-1", "a"), state(up, "i-1=Exited:1"), probes{}, "killpod"},
		{"an init container was never started", pod(always, "i-1", "a"), state(up, "i-1=Created"), probes{}, "remove/i-1 init/i-1"},
		{"all init containers succeeded", pod(always, "i-1", "i-2", "a"), state(up, "i-1=Exited", "i-2=Exited"), probes{}, "start/a"},
		{"an init container was collected after it ran", pod(always, "i-1", "a"), state(up, "a=Running"), probes{}, ""},
		{"a sidecar starts first", pod(always, "s-1", "i-1", "a"), state(up), probes{}, "init/s-1"},
		{"a sidecar that has not started blocks", pod(always, "s-1", "i-1", "a"), state(up, "s-1=Running"), probes{notStarted: map[string]bool{"id-s-1": true}}, ""},
		{"a sidecar runs, the init container next", pod(always, "s-1", "i-1", "a"), state(up, "s-1=Running"), probes{}, "init/i-1"},
		{"a sidecar ended beside a running container", pod(never, "s-1", "a"), state(up, "s-1=Exited:1", "a=Running"), probes{}, "init/s-1"},
		{"sidecars end with the pod", pod(never, "s-1", "a"), state(up, "s-1=Running", "a=Exited"), probes{}, "killpod"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := show(podactions.Compute(c.pod, &corev1.PodStatus{}, c.state, c.probes)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestChangedImageRestarts(t *testing.T) {
	p := pod(corev1.RestartPolicyNever, "a")
	p.Spec.Containers[0].Image = "other"
	a := podactions.Compute(p, &corev1.PodStatus{}, state([]runtime.Sandbox{box(0, true, "x")}, "a=Running"), probes{})
	if show(a) != "kill/a start/a" || a.Kill[0].Message != "Container a definition changed, will be restarted" {
		t.Errorf("got %q, %+v", show(a), a.Kill)
	}
}

func TestHostNetworkNeedsNoAddress(t *testing.T) {
	p := pod(corev1.RestartPolicyAlways, "a")
	p.Spec.HostNetwork = true
	sandbox := box(0, true)
	sandbox.HostNetwork = true
	if got := show(podactions.Compute(p, &corev1.PodStatus{}, state([]runtime.Sandbox{sandbox}), probes{})); got != "start/a" {
		t.Errorf("got %q", got)
	}
}
