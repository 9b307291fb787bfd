package admission

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// tolerationSeconds is how long a pod stays on a node that is not ready or unreachable.
const tolerationSeconds = 300

// The priority classes that exist without being stored.
const (
	systemCluster = "system-cluster-critical"
	systemNode    = "system-node-critical"

	systemClusterPriority = 2000000000
	systemNodePriority    = 2000001000
)

// priority sets the priority of a new pod from its class. Without a class it is 0; of the
// classes only the two of the system exist as yet.
func priority(_ context.Context, req *Request) error {
	pod, ok := req.Object.(*corev1.Pod)
	if !ok || req.Verb != Create || req.Subresource != "" {
		return nil
	}
	var value int32
	switch pod.Spec.PriorityClassName {
	case "":
	case systemCluster:
		value = systemClusterPriority
	case systemNode:
		value = systemNodePriority
	default:
		return forbidden(req, fmt.Errorf("no PriorityClass with name %v was found", pod.Spec.PriorityClassName))
	}
	if pod.Spec.Priority != nil && *pod.Spec.Priority != value {
		return forbidden(req, fmt.Errorf("the integer value of priority (%d) must not be provided in pod spec; priority admission controller computed %d from the given PriorityClass name", *pod.Spec.Priority, value))
	}
	pod.Spec.Priority = &value
	policy := corev1.PreemptLowerPriority
	if pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy != policy {
		return forbidden(req, fmt.Errorf("the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority admission controller computed %s from the given PriorityClass name", *pod.Spec.PreemptionPolicy, policy))
	}
	pod.Spec.PreemptionPolicy = &policy
	return nil
}

// defaultTolerations lets every pod stay for a while on a node that is not ready or
// unreachable, unless the pod says how long.
func defaultTolerations(_ context.Context, req *Request) error {
	pod, ok := req.Object.(*corev1.Pod)
	if !ok || req.Verb == Delete || req.Subresource != "" {
		return nil
	}
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		tolerated := slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "")
		})
		if tolerated {
			continue
		}
		seconds := int64(tolerationSeconds)
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
			Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		})
	}
	return nil
}

// taintNewNode keeps pods off a node until its first status says that it is ready.
func taintNewNode(_ context.Context, req *Request) error {
	node, ok := req.Object.(*corev1.Node)
	if !ok || req.Verb != Create {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return nil
}
