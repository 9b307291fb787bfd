package podlifecycle

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/allocation"
	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
)

// allocated returns pod with the resources that it was given when it was started.
func (l *Lifecycle) allocated(pod *corev1.Pod, state *podstate.Pod) *corev1.Pod {
	given, _ := allocation.Of(pod, state, l.cfg.Status.Get(pod))
	return given
}

// reportUnacted records Events about requests made after the pod's creation that the node does not
// act on. It records each once: the previous status, old, shows which were already reported.
func (l *Lifecycle) reportUnacted(pod *corev1.Pod, old, s *corev1.PodStatus) {
	var names []string
	for i := range pod.Spec.EphemeralContainers {
		name := pod.Spec.EphemeralContainers[i].Name
		if !slices.ContainsFunc(old.EphemeralContainerStatuses, func(told corev1.ContainerStatus) bool { return told.Name == name }) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		l.cfg.Events.Event(pod, corev1.EventTypeWarning, reasonUnsupported,
			"this node agent does not run ephemeral containers: [%s]; the pod runs without them", strings.Join(names, " "))
	}
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
