package tainteviction

import (
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// departure reports whether a pod must leave a node with these NoExecute taints, and when. The pod
// leaves at once if it does not tolerate one of them, else when its first toleration ends. A toleration
// begins when the taint was added, or else since, but not before the pod came to the node at bound.
func departure(tolerations []corev1.Toleration, taints []corev1.Taint, since, bound time.Time) (leaves bool, at time.Time) {
	for i := range taints {
		added := since
		if taints[i].TimeAdded != nil {
			added = taints[i].TimeAdded.Time
		}
		if added.Before(bound) {
			added = bound
		}
		tolerated, seconds := false, (*int64)(nil)
		for j := range tolerations {
			if tolerations[j].ToleratesTaint(logr.Discard(), &taints[i], false) {
				tolerated, seconds = true, tolerations[j].TolerationSeconds
				break
			}
		}
		ends := added
		switch {
		case tolerated && seconds == nil:
			continue
		case tolerated:
			ends = added.Add(lasting(*seconds))
		}
		if !leaves || ends.Before(at) {
			leaves, at = true, ends
		}
	}
	return leaves, at
}

// longest bounds tolerations: a time.Duration ends at 292 years.
const longest = 100 * 365 * 24 * time.Hour

// lasting returns the duration of a toleration.
func lasting(seconds int64) time.Duration {
	return time.Duration(min(max(seconds, 0), int64(longest/time.Second))) * time.Second
}

// boundAt returns when a pod came to its node; the zero time if it does not say so.
func boundAt(pod *corev1.Pod) time.Time {
	if c := podstate.Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue {
		return c.LastTransitionTime.Time
	}
	return time.Time{}
}

// noExecute returns a node's taints with the effect NoExecute.
func noExecute(node *corev1.Node) []corev1.Taint {
	var taints []corev1.Taint
	for _, taint := range node.Spec.Taints {
		if taint.Effect == corev1.TaintEffectNoExecute {
			taints = append(taints, taint)
		}
	}
	return taints
}
