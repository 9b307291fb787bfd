package status

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
	if in.State.Container(c.Name) != nil || old == nil || !in.ran(old) {
		return in.containerStatus(c, old, false)
	}
	// The container was removed from the runtime. It does not run again, so its status is final.
	s := *old.DeepCopy()
	if s.State.Running != nil {
		s.State = corev1.ContainerState{Terminated: lost(old)}
	}
	return s
}

// ran reports whether the status of an ephemeral container shows that it has been started.
func (in *Input) ran(s *corev1.ContainerStatus) bool {
	return s.State.Running != nil || s.State.Terminated != nil || s.LastTerminationState.Terminated != nil
}
