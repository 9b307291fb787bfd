package podlifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
)

// allocated returns pod with the resources that it was given when it was started.
func (l *Lifecycle) allocated(pod *corev1.Pod, state *podstate.Pod) *corev1.Pod {
	given, _ := allocation.Of(pod, state, l.cfg.Status.Get(pod))
	return given
}

// reportResize records an Event about a resize that the node does not act on. It records each once:
// the previous status, old, shows whether it was already reported.
func (l *Lifecycle) reportResize(pod *corev1.Pod, old, s *corev1.PodStatus) {
	pending, told := resizePending(s), resizePending(old)
	if pending != nil && (told == nil || told.Reason != pending.Reason || told.ObservedGeneration != pending.ObservedGeneration) {
		l.cfg.Events.Event(pod, corev1.EventTypeWarning, allocation.EventReason, "%s", allocation.EventMessage(pod, pending.Message))
	}
}

func resizePending(s *corev1.PodStatus) *corev1.PodCondition {
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	if i < 0 {
		return nil
	}
	return &s.Conditions[i]
}
