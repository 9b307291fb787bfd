package status

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
)

// owned are the conditions that the node agent sets; other writers own all others.
var owned = []corev1.PodConditionType{
	corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	corev1.PodResizePending, corev1.PodResizeInProgress,
}

// isPassing reports whether one of the agent's own conditions is present only while it is true.
func isPassing(t corev1.PodConditionType) bool {
	return t == corev1.PodResizePending || t == corev1.PodResizeInProgress
}

func isOwned(t corev1.PodConditionType) bool { return slices.Contains(owned, t) }

func (in *Input) conditions(s *corev1.PodStatus) {
	for _, c := range in.Old.Conditions {
		if !isOwned(c.Type) {
			s.Conditions = append(s.Conditions, *c.DeepCopy())
		}
	}
	sandbox := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse}
	if ready := in.State.ReadySandbox(); ready != nil && (in.Pod.Spec.HostNetwork || len(ready.IPs) > 0) {
		sandbox.Status = corev1.ConditionTrue
	}
	in.setCondition(s, sandbox)
	in.setCondition(s, in.initialized(s))
	containers := in.containersReady(s)
	in.setCondition(s, in.ready(s, containers))
	in.setCondition(s, containers)
	in.setCondition(s, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	if len(in.Resized) > 0 && !terminal(s.Phase) {
		in.setCondition(s, corev1.PodCondition{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue,
			Reason: corev1.PodReasonInfeasible, Message: allocation.Message(in.Resized),
		})
	}
}

// setCondition adds a condition, with the time of its last transition.
func (in *Input) setCondition(s *corev1.PodStatus, c corev1.PodCondition) {
	c.ObservedGeneration = in.Pod.Generation
	c.LastTransitionTime = in.Now.Rfc3339Copy()
	for i := range in.Old.Conditions {
		if old := &in.Old.Conditions[i]; old.Type == c.Type && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
			c.LastTransitionTime = old.LastTransitionTime
		}
	}
	s.Conditions = append(s.Conditions, c)
}

func (in *Input) initialized(s *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	if s.Phase == corev1.PodSucceeded {
		c.Reason = "PodCompleted"
		return c
	}
	for i := range s.ContainerStatuses {
		if s.ContainerStatuses[i].ContainerID != "" {
			return c // An app container was created, so the init containers had completed.
		}
	}
	var incomplete []string
	for i := range s.InitContainerStatuses {
		cs := &s.InitContainerStatuses[i]
		done := cs.State.Terminated != nil && cs.State.Terminated.ExitCode == 0
		if isSidecar(&in.Pod.Spec.InitContainers[i]) {
			done = cs.Started != nil && *cs.Started
		}
		if !done {
			incomplete = append(incomplete, cs.Name)
		}
	}
	if len(incomplete) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, "ContainersNotInitialized"
		c.Message = fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	return c
}

func (in *Input) containersReady(s *corev1.PodStatus) corev1.PodCondition {
	c := corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionFalse}
	switch s.Phase {
	case corev1.PodSucceeded:
		c.Reason = "PodCompleted"
		return c
	case corev1.PodFailed:
		c.Reason = "PodFailed"
		return c
	}
	var unready []string
	for i := range s.InitContainerStatuses {
		if isSidecar(&in.Pod.Spec.InitContainers[i]) && !s.InitContainerStatuses[i].Ready {
			unready = append(unready, s.InitContainerStatuses[i].Name)
		}
	}
	for i := range s.ContainerStatuses {
		if !s.ContainerStatuses[i].Ready {
			unready = append(unready, s.ContainerStatuses[i].Name)
		}
	}
	if len(unready) > 0 {
		c.Reason = "ContainersNotReady"
		c.Message = fmt.Sprintf("containers with unready status: %s", unready)
		return c
	}
	c.Status = corev1.ConditionTrue
	return c
}

func (in *Input) ready(s *corev1.PodStatus, containers corev1.PodCondition) corev1.PodCondition {
	c := containers
	c.Type = corev1.PodReady
	if containers.Status != corev1.ConditionTrue {
		return c
	}
	var missing []string
	for _, gate := range in.Pod.Spec.ReadinessGates {
		i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType })
		switch {
		case i < 0:
			missing = append(missing, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", gate.ConditionType))
		case s.Conditions[i].Status != corev1.ConditionTrue:
			missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", gate.ConditionType, s.Conditions[i].Status))
		}
	}
	if len(missing) > 0 {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, "ReadinessGatesNotReady", strings.Join(missing, ", ")
	}
	return c
}

// SetCondition sets a condition that is not one of the kubelet's in a status generated from in.
func SetCondition(in Input, s *corev1.PodStatus, c corev1.PodCondition) {
	s.Conditions = slices.DeleteFunc(s.Conditions, func(old corev1.PodCondition) bool { return old.Type == c.Type })
	in.setCondition(s, c)
}

// IsTerminal reports whether a pod in this phase has ended for good.
func IsTerminal(phase corev1.PodPhase) bool { return terminal(phase) }
