package podactions_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

func TestEphemeralContainersRunOnce(t *testing.T) {
	up := []runtime.Sandbox{box(0, true, "10.0.0.1")}
	again := []runtime.Sandbox{box(1, true, "10.0.0.1"), box(0, false)}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	const always, never = corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	for _, c := range []struct {
		name  string
		pod   *corev1.Pod
		told  corev1.ContainerStatus
		state *podstate.Pod
		want  string
	}{
		{"a new one", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state(up, "a=Running"), "ephemeral/e-1"},
		{"two", pod(always, "a", "e-2", "e-1"), corev1.ContainerStatus{}, state(up, "a=Running"), "ephemeral/e-2 ephemeral/e-1"},
		{"it runs", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state(up, "a=Running", "e-1=Running"), ""},
		{"it has failed", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state(up, "a=Running", "e-1=Exited:1"), ""},
		{"the runtime does not know its state", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state(up, "a=Running", "e-1=Unknown"), ""},
		{"its image came late", pod(always, "a", "e-1"), corev1.ContainerStatus{State: waiting}, state(up, "a=Running"), "ephemeral/e-1"},
		{"it ran, and was removed", pod(always, "a", "e-1"), corev1.ContainerStatus{State: running}, state(up, "a=Running"), ""},
		{"it ended, and was removed", pod(always, "a", "e-1"), corev1.ContainerStatus{State: ended}, state(up, "a=Running"), ""},
		{"it ended before a kubelet's restart", pod(always, "a", "e-1"),
			corev1.ContainerStatus{State: waiting, LastTerminationState: ended}, state(up, "a=Running"), ""},
		{"an agent created it and ended", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state(up, "a=Running", "e-1=Created"), "ephemeral/e-1"},
		{"in an older sandbox", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state(again, "e-1=Created"), "start/a"},
		{"it ended with an older sandbox", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state(again, "e-1=Exited"), "start/a"},
		{"a restart beside it", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state(up, "a=Exited:1"), "ephemeral/e-1 start/a"},
		{"init containers are not done", pod(always, "i-1", "a", "e-1"), corev1.ContainerStatus{}, state(up, "i-1=Running"), "ephemeral/e-1"},
		{"an init container fails again and again", pod(always, "i-1", "a", "e-1"), corev1.ContainerStatus{}, state(up, "i-1=Exited:1"), "ephemeral/e-1 init/i-1"},
		{"an init container failed for good", pod(never, "i-1", "a", "e-1"), corev1.ContainerStatus{}, state(up, "i-1=Exited:1"), "killpod"},
		{"no sandbox", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state(nil), "killpod sandbox/0 start/a"},
		{"the sandbox died", pod(always, "a", "e-1"), corev1.ContainerStatus{}, state([]runtime.Sandbox{box(0, false)}), "killpod sandbox/1 start/a"},
		{"the pod has ended", pod(never, "a", "e-1"), corev1.ContainerStatus{}, state(up, "a=Exited"), "killpod"},
		{"only it runs", pod(never, "a", "e-1"), corev1.ContainerStatus{}, state(up, "a=Exited", "e-1=Running"), "killpod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.told.Name = "e-1"
			told := &corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{c.told}}
			a := podactions.Compute(c.pod, told, c.state, probes{})
			if got := show(a); got != c.want || a.Nothing() != (got == "") {
				t.Errorf("got %q, want %q; nothing: %v", got, c.want, a.Nothing())
			}
			a.StartNone()
			if a.Starts() || a.CreateSandbox {
				t.Errorf("%q is left", show(a))
			}
		})
	}
}
