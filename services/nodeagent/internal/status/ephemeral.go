package status

import (
	corev1 "k8s.io/api/core/v1"
)

// ephemeralStatuses returns a waiting status for each ephemeral container, since the node agent
// does not run them. kubectl debug prints the message.
func (in *Input) ephemeralStatuses() []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for i := range in.Pod.Spec.EphemeralContainers {
		c := &in.Pod.Spec.EphemeralContainers[i]
		statuses = append(statuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{
				Reason: "CreateContainerConfigError", Message: "this node agent does not run ephemeral containers",
			}},
		})
	}
	return statuses
}
