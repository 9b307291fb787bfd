package status

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/runtime"
)

const (
	reasonCreating     = "ContainerCreating"
	reasonInitializing = "PodInitializing"
	// reasonUnknown and killedCode represent a container that is gone without a trace.
	reasonUnknown = "ContainerStatusUnknown"
	killedCode    = 137
)

func (in *Input) containerStatuses(specs []corev1.Container, old []corev1.ContainerStatus, init bool) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for i := range specs {
		c := &specs[i]
		var before *corev1.ContainerStatus
		for j := range old {
			if old[j].Name == c.Name {
				before = &old[j]
			}
		}
		statuses = append(statuses, in.containerStatus(c, before, init))
	}
	return statuses
}

func (in *Input) containerStatus(c *corev1.Container, old *corev1.ContainerStatus, init bool) corev1.ContainerStatus {
	present := in.State.Container(c.Name)
	if present == nil {
		return in.missing(c, old)
	}
	s := corev1.ContainerStatus{
		Name: c.Name, RestartCount: int32(present.Attempt), Image: present.Image, ImageID: present.ImageID,
		ContainerID: in.id(present.ID),
	}
	if before := in.State.Before(present); before != nil && before.State == runtime.Exited {
		s.LastTerminationState.Terminated = in.terminated(before, old)
	} else if old != nil && old.ContainerID == s.ContainerID {
		// The previous instance was removed from the node.
		s.LastTerminationState = *old.LastTerminationState.DeepCopy()
	} else if old != nil && old.State.Terminated != nil {
		s.LastTerminationState.Terminated = old.State.Terminated.DeepCopy()
	}
	no := false
	s.Started = &no
	switch present.State {
	case runtime.Running:
		started := in.Started(c, present.ID)
		s.Started = &started
		// An init container is ready when it has completed, except a sidecar, which runs alongside
		// the others.
		s.Ready = started && (!init || isSidecar(c)) && in.Ready(c, present.ID)
		s.State.Running = &corev1.ContainerStateRunning{StartedAt: moment(present.StartedAt)}
	case runtime.Created:
		s.State.Waiting = in.waiting(c)
	case runtime.Unknown:
		s.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: killedCode, Reason: reasonUnknown, ContainerID: s.ContainerID,
			Message: "The container runtime does not know what became of the container",
		}
	default:
		in.exited(c, &s, present, old, init)
	}
	s.VolumeMounts = mountStatuses(c)
	s.Resources = resources(c, present, old)
	if s.Resources != nil {
		s.AllocatedResources = maps.Clone(c.Resources.Requests)
	}
	return s
}

// exited fills in the status of a container that ended: terminated, or waiting for a restart.
func (in *Input) exited(c *corev1.Container, s *corev1.ContainerStatus, present *runtime.Container,
	old *corev1.ContainerStatus, init bool) {
	ended := in.terminated(present, old)
	s.Ready = init && !isSidecar(c) && present.ExitCode == 0
	if reason, ok := in.Waiting(c.Name); ok && !in.Ended && in.restarts(c, present, init) {
		s.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason.Reason, Message: reason.Message}
		s.LastTerminationState = corev1.ContainerState{Terminated: ended}
		return
	}
	s.State.Terminated = ended
}

// restarts reports whether the pod's policy restarts an ended container.
func (in *Input) restarts(c *corev1.Container, present *runtime.Container, init bool) bool {
	if init && isSidecar(c) {
		return true
	}
	switch in.Pod.Spec.RestartPolicy {
	case corev1.RestartPolicyNever:
		return false
	case corev1.RestartPolicyOnFailure:
		return present.ExitCode != 0
	}
	return !init || present.ExitCode != 0
}

// missing returns the status of a container that the runtime does not know.
func (in *Input) missing(c *corev1.Container, old *corev1.ContainerStatus) corev1.ContainerStatus {
	no := false
	s := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: &no, VolumeMounts: mountStatuses(c)}
	if old != nil {
		s.RestartCount = old.RestartCount
		if old.Resources != nil {
			// The next container gets the same resources.
			s.Resources, s.AllocatedResources = c.Resources.DeepCopy(), maps.Clone(c.Resources.Requests)
		}
		s.LastTerminationState = *old.LastTerminationState.DeepCopy()
		switch {
		case old.State.Terminated != nil:
			if _, waits := in.Waiting(c.Name); !waits {
				return *old.DeepCopy()
			}
			s.LastTerminationState = *old.State.DeepCopy()
		case old.State.Running != nil:
			ended := lost(old)
			if in.Ended {
				ended.Message = "The container could not be located when the pod was terminated"
				s.State.Terminated = ended
				s.ContainerID, s.Image, s.ImageID = old.ContainerID, old.Image, old.ImageID
				return s
			}
			s.LastTerminationState.Terminated = ended
		}
	}
	s.State.Waiting = in.waiting(c)
	return s
}

// lost returns the end of a container that ran when its last status was written, and that the runtime
// does not know any more.
func lost(old *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	return &corev1.ContainerStateTerminated{
		ExitCode: killedCode, Reason: reasonUnknown, ContainerID: old.ContainerID,
		StartedAt: old.State.Running.StartedAt,
		Message:   "The container could not be located when the pod was deleted.  The container used to be Running",
	}
}

// waiting returns the reason why a container that has not run yet waits.
func (in *Input) waiting(c *corev1.Container) *corev1.ContainerStateWaiting {
	if reason, ok := in.Waiting(c.Name); ok {
		return &corev1.ContainerStateWaiting{Reason: reason.Reason, Message: reason.Message}
	}
	reason := reasonCreating
	if len(in.Pod.Spec.InitContainers) > 0 {
		reason = reasonInitializing
	}
	return &corev1.ContainerStateWaiting{Reason: reason}
}

func (in *Input) terminated(c *runtime.Container, old *corev1.ContainerStatus) *corev1.ContainerStateTerminated {
	t := &corev1.ContainerStateTerminated{
		ExitCode: c.ExitCode, Reason: c.Reason, Message: c.Message, ContainerID: in.id(c.ID),
		StartedAt: moment(c.StartedAt), FinishedAt: moment(c.FinishedAt),
	}
	if t.Reason == "" {
		t.Reason = "Completed"
		if c.ExitCode != 0 {
			t.Reason = "Error"
		}
	}
	if t.Message == "" && old != nil {
		// The file with the message is removed with the pod's directory; the API's copy stays.
		for _, said := range []*corev1.ContainerStateTerminated{old.State.Terminated, old.LastTerminationState.Terminated} {
			if said != nil && said.ContainerID == t.ContainerID {
				t.Message = said.Message
			}
		}
	}
	return t
}

func (in *Input) id(id string) string { return in.RuntimeName + "://" + id }

// moment converts a time to the API's precision of whole seconds.
func moment(t interface{ Unix() int64 }) metav1.Time {
	if seconds := t.Unix(); seconds > 0 {
		return metav1.Unix(seconds, 0)
	}
	return metav1.Time{}
}

func mountStatuses(c *corev1.Container) []corev1.VolumeMountStatus {
	var statuses []corev1.VolumeMountStatus
	for _, m := range c.VolumeMounts {
		s := corev1.VolumeMountStatus{Name: m.Name, MountPath: m.MountPath, ReadOnly: m.ReadOnly}
		if m.ReadOnly {
			disabled := corev1.RecursiveReadOnlyDisabled
			s.RecursiveReadOnly = &disabled
		}
		statuses = append(statuses, s)
	}
	return statuses
}
