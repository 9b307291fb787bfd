package podactions

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

// ephemeralContainers decides for ephemeral containers. Each runs once, as soon as the pod has a
// sandbox. Nothing else of the pod waits for them.
func (a *Actions) ephemeralContainers(pod *corev1.Pod, told *corev1.PodStatus, state *podstate.Pod) {
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		switch present := state.Container(c.Name); {
		case present == nil && Ran(told, c.Name):
			// Its container was removed from the runtime. The kubelet would run it again.
		case present == nil, present.State == runtime.Created && present.SandboxID == a.SandboxID:
			a.StartEphemeral = append(a.StartEphemeral, c)
		}
	}
}

// Ran reports whether a pod's status shows that the ephemeral container with this name has been
// started.
func Ran(told *corev1.PodStatus, name string) bool {
	for i := range told.EphemeralContainerStatuses {
		s := &told.EphemeralContainerStatuses[i]
		if s.Name == name && (s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil) {
			return true
		}
	}
	return false
}
