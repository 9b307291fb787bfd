package status

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/podactions"
)

// ephemeralStatuses returns the statuses of the ephemeral containers, by name. They are never ready
// and have not started in the sense of probes, since they have none.
func (in *Input) ephemeralStatuses() []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for i := range in.Pod.Spec.EphemeralContainers {
		c := (*corev1.Container)(&in.Pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		s := in.ephemeralStatus(c)
		s.Ready, s.Started = false, nil
		statuses = append(statuses, s)
	}
	slices.SortFunc(statuses, func(a, b corev1.ContainerStatus) int { return cmp.Compare(a.Name, b.Name) })
	return statuses
}

func (in *Input) ephemeralStatus(c *corev1.Container) corev1.ContainerStatus {
	var old *corev1.ContainerStatus
	for i := range in.Old.EphemeralContainerStatuses {
		if in.Old.EphemeralContainerStatuses[i].Name == c.Name {
			old = &in.Old.EphemeralContainerStatuses[i]
		}
	}
	present := in.State.Container(c.Name)
	if present == nil && old != nil && podactions.Ran(in.Old, c.Name) {
		// The container was removed from the runtime. It does not run again, so its status is final.
		s := *old.DeepCopy()
		if s.State.Running != nil {
			s.State = corev1.ContainerState{Terminated: lost(old)}
		}
		return s
	}
	seen := *in
	if present != nil && !present.StartedAt.IsZero() {
		// Though the call that started it failed, for example because it took too long.
		seen.Waiting = func(string) (Reason, bool) { return Reason{}, false }
	}
	return seen.containerStatus(c, old, false)
}
