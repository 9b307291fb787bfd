// Package taints has the plugins that set taints of nodes and tolerations of pods.
package taints

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// DefaultTolerationSeconds returns the plugin of that name.
func DefaultTolerationSeconds() admission.Plugin { return admission.Plugin{Mutate: defaultTolerations} }

// NodesByCondition returns the plugin TaintNodesByCondition.
func NodesByCondition() admission.Plugin { return admission.Plugin{Mutate: taintNewNode} }

// tolerationSeconds is how long a pod stays on a node that is not ready or unreachable.
const tolerationSeconds = 300

// defaultTolerations lets every pod stay for a while on a node that is not ready or unreachable,
// unless the pod says how long.
func defaultTolerations(_ context.Context, req *admission.Request) error {
	pod, ok := req.Object.(*corev1.Pod)
	if !ok || req.Verb == admission.Delete || req.Subresource != "" {
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

// taintNewNode keeps pods off a node until its first status reports it ready.
func taintNewNode(_ context.Context, req *admission.Request) error {
	node, ok := req.Object.(*corev1.Node)
	if !ok || req.Verb != admission.Create || req.Subresource != "" {
		return nil
	}
	taint := corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	if !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	return nil
}
