package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
	"github.com/garboard/garboard/services/nodeagent/internal/status"
)

// debugged returns a pod with a container and these ephemeral containers.
func debugged(policy corev1.RestartPolicy, init int, names ...string) *corev1.Pod {
	pod := spec(policy, init, 1)
	for _, name := range names {
		pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox"},
		})
	}
	return pod
}

// show formats the state of a container in one line.
func show(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return fmt.Sprint("running since ", s.Running.StartedAt.Unix())
	case s.Terminated != nil:
		return fmt.Sprintf("%s %d %s", s.Terminated.Reason, s.Terminated.ExitCode, s.Terminated.Message)
	case s.Waiting != nil:
		return "waits: " + s.Waiting.Reason + " " + s.Waiting.Message
	}
	return "nothing"
}

func TestEphemeralContainers(t *testing.T) {
	const always, never = corev1.RestartPolicyAlways, corev1.RestartPolicyNever
	created, unknown, failed := running("debug"), running("debug"), exited("debug", 128)
	created.State, created.StartedAt = runtime.Created, time.Time{}
	unknown.State = runtime.Unknown
	failed.Reason, failed.Message, failed.StartedAt = "StartError", "no such file", time.Time{}
	ran := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Unix(900, 0)}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 3, Reason: "Error", Message: "bye"}}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"}}
	const gone = "ContainerStatusUnknown 137 The container could not be located when the pod was deleted.  The container used to be Running"
	for _, c := range []struct {
		name       string
		pod        *corev1.Pod
		reason     string
		old        corev1.ContainerStatus
		containers []runtime.Container
		want, last string
	}{
		{"a new one", debugged(always, 0, "debug"), "", corev1.ContainerStatus{}, nil, "waits: ContainerCreating ", ""},
		{"in a pod with init containers", debugged(always, 1, "debug"), "", corev1.ContainerStatus{}, nil, "waits: PodInitializing ", ""},
		{"its image does not come", debugged(always, 0, "debug"), "ErrImagePull", corev1.ContainerStatus{}, nil, "waits: ErrImagePull why", ""},
		{"it waited", debugged(always, 0, "debug"), "", corev1.ContainerStatus{State: waiting}, nil, "waits: ContainerCreating ", ""},
		{"created", debugged(always, 0, "debug"), "", corev1.ContainerStatus{}, []runtime.Container{created}, "waits: ContainerCreating ", ""},
		{"it runs", debugged(always, 0, "debug"), "", corev1.ContainerStatus{}, []runtime.Container{running("debug")}, "running since 900", ""},
		{"it ended", debugged(always, 0, "debug"), "", corev1.ContainerStatus{State: ran}, []runtime.Container{exited("debug", 0)}, "Completed 0 ", ""},
		{"it failed", debugged(always, 0, "debug"), "", corev1.ContainerStatus{State: ran}, []runtime.Container{exited("debug", 3)}, "Error 3 ", ""},
		{"it could not be started", debugged(always, 0, "debug"), "RunContainerError", corev1.ContainerStatus{}, []runtime.Container{failed},
			"waits: RunContainerError why", "StartError 128 no such file"},
		{"its start took too long for the agent", debugged(always, 0, "debug"), "RunContainerError", corev1.ContainerStatus{},
			[]runtime.Container{exited("debug", 0)}, "Completed 0 ", ""},
		{"it could not be started in a pod that does not restart", debugged(never, 0, "debug"), "RunContainerError", corev1.ContainerStatus{},
			[]runtime.Container{failed}, "StartError 128 no such file", ""},
		{"the runtime does not know its state", debugged(always, 0, "debug"), "", corev1.ContainerStatus{}, []runtime.Container{unknown},
			"ContainerStatusUnknown 137 The container runtime does not know what became of the container", ""},
		{"it ran, and was removed", debugged(always, 0, "debug"), "", corev1.ContainerStatus{State: ran}, nil, gone, ""},
		{"it ended, and was removed", debugged(always, 0, "debug"), "", corev1.ContainerStatus{State: ended}, nil, "Error 3 bye", ""},
		{"it could not be started, and was removed", debugged(always, 0, "debug"), "", corev1.ContainerStatus{State: waiting, LastTerminationState: ended}, nil,
			"waits: ErrImagePull ", "Error 3 bye"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.old.Name, c.old.ContainerID = "debug", "containerd://old"
			in := input(c.pod, corev1.PodStatus{EphemeralContainerStatuses: []corev1.ContainerStatus{c.old}}, append(c.containers, running("c0"))...)
			in.Waiting = func(string) (status.Reason, bool) {
				return status.Reason{Reason: c.reason, Message: "why"}, c.reason != ""
			}
			s := status.Generate(in).EphemeralContainerStatuses
			if len(s) != 1 || show(s[0].State) != c.want || c.last != "" && show(s[0].LastTerminationState) != c.last {
				t.Fatalf("got %+v, want %s", s, c.want)
			}
			if s[0].Ready || s[0].Started != nil || s[0].RestartCount != 0 {
				t.Errorf("it is shown as one with probes, or as restarted: %+v", s[0])
			}
			if len(c.containers) > 0 && s[0].ContainerID != "containerd://id-debug" {
				t.Errorf("its ID is %s", s[0].ContainerID)
			}
		})
	}
}

// TestEphemeralContainersDoNotCount: phase, end and conditions of a pod do not depend on ephemeral
// containers.
func TestEphemeralContainersDoNotCount(t *testing.T) {
	for _, c := range []struct {
		policy   corev1.RestartPolicy
		app      runtime.Container
		phase    corev1.PodPhase
		ready    string
		finished bool
	}{
		{corev1.RestartPolicyAlways, running("c0"), corev1.PodRunning, "True", false},
		{corev1.RestartPolicyNever, exited("c0", 0), corev1.PodSucceeded, "False PodCompleted", true},
		{corev1.RestartPolicyNever, exited("c0", 1), corev1.PodFailed, "False PodFailed", true},
	} {
		for _, debug := range [][]runtime.Container{nil, {running("debug")}, {exited("debug", 1)}} {
			in := input(debugged(c.policy, 0, "debug"), corev1.PodStatus{}, append(debug, c.app)...)
			in.Ended = c.finished
			s := status.Generate(in)
			if s.Phase != c.phase || condition(s, corev1.PodReady) != c.ready || status.Finished(in, s) != c.finished {
				t.Errorf("with %s and %+v: phase %s, ready %s, finished %v", c.app.State, debug, s.Phase, condition(s, corev1.PodReady), status.Finished(in, s))
			}
		}
	}
}

func TestEphemeralContainersAreSorted(t *testing.T) {
	var names []string
	for _, s := range status.Generate(input(debugged(corev1.RestartPolicyAlways, 0, "c", "a", "b"), corev1.PodStatus{}, running("c0"))).EphemeralContainerStatuses {
		names = append(names, s.Name)
	}
	if got := strings.Join(names, " "); got != "a b c" {
		t.Errorf("the order is %s", got)
	}
}
