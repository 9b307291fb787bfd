package nodelifecycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// conditionTaint is a taint that a node has while one of its conditions has the given status.
type conditionTaint struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
}

func conditionTaints() []conditionTaint {
	return []conditionTaint{
		{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
		{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
		{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
		{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
		{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
		{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
	}
}

// managed reports whether this controller sets and removes a taint.
func managed(taint corev1.Taint) bool {
	switch taint.Effect {
	case corev1.TaintEffectNoExecute:
		return taint.Key == corev1.TaintNodeNotReady || taint.Key == corev1.TaintNodeUnreachable
	case corev1.TaintEffectNoSchedule:
		return taint.Key == corev1.TaintNodeUnschedulable || slices.ContainsFunc(conditionTaints(), func(c conditionTaint) bool {
			return c.key == taint.Key
		})
	}
	return false
}

// wanted returns the taints that this controller wants on a node. If evict is set, they may include
// a NoExecute taint. For a node that has never reported whether it is ready, see taint.
func wanted(node *corev1.Node, evict bool, now time.Time) []corev1.Taint {
	var taints []corev1.Taint
	add := func(key string, effect corev1.TaintEffect) {
		taints = append(taints, corev1.Taint{Key: key, Effect: effect, TimeAdded: &metav1.Time{Time: now}})
	}
	if node.Spec.Unschedulable {
		add(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)
	}
	for _, c := range conditionTaints() {
		if current := condition(node, c.condition); current != nil && current.Status == c.status {
			add(c.key, corev1.TaintEffectNoSchedule)
		}
	}
	if key := evictionKey(node); key != "" && evict {
		add(key, corev1.TaintEffectNoExecute)
	}
	return taints
}

// evictionKey returns the key of the NoExecute taint that drives pods off a node; empty if they
// stay.
func evictionKey(node *corev1.Node) string {
	ready := condition(node, corev1.NodeReady)
	switch {
	case ready == nil:
		return ""
	case ready.Status == corev1.ConditionFalse:
		return corev1.TaintNodeNotReady
	case ready.Status == corev1.ConditionUnknown:
		return corev1.TaintNodeUnreachable
	default:
		return ""
	}
}

// merge returns a node's taints with the managed ones brought up to date. Taints that stay keep
// their place and the time when they were added.
func merge(current, ours []corev1.Taint) (merged []corev1.Taint, changed bool) {
	for _, taint := range current {
		if managed(taint) && !has(ours, taint) {
			changed = true
			continue
		}
		merged = append(merged, taint)
	}
	for _, taint := range ours {
		if !has(merged, taint) {
			merged, changed = append(merged, taint), true
		}
	}
	return merged, changed
}

func has(taints []corev1.Taint, taint corev1.Taint) bool {
	return slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == taint.Key && t.Effect == taint.Effect })
}

// taint brings a node's taints up to date. It sets the taint that drives pods off only as fast as
// the node's zone allows. wait is the delay before the next try; 0 if none is needed.
func (r *reconciler) taint(ctx context.Context, node *corev1.Node, now time.Time) (wait time.Duration, err error) {
	evict := false
	if key := evictionKey(node); key != "" && !r.zones.allDown() {
		switch {
		case has(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute}):
			evict = true
		case len(noExecuteOfOurs(node)) > 0:
			evict = true // One managed taint replaces the other; the pods are leaving already.
		default:
			evict, wait = r.zones.admit(node, now)
		}
	}
	ours := wanted(node, evict, now)
	if condition(node, corev1.NodeReady) == nil {
		// The node has just registered as not ready; nothing is known to the contrary.
		for _, taint := range node.Spec.Taints {
			if managed(taint) && taint.Key == corev1.TaintNodeNotReady {
				ours = append(ours, taint)
			}
		}
	}
	merged, changed := merge(node.Spec.Taints, ours)
	if !changed {
		return wait, nil
	}
	next := node.DeepCopy()
	next.Spec.Taints = merged
	if _, err := r.nodes.Client.Update(ctx, next, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("changing the taints of node %s: %w", node.Name, err)
	}
	return wait, nil
}

// noExecuteOfOurs returns those of a node's managed taints that drive pods off.
func noExecuteOfOurs(node *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectNoExecute || !managed(t)
	})
}
