package placement

import (
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"github.com/garboard/garboard/libs/hostports"
	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

func unschedulableFilter(pod *corev1.Pod) filter {
	tolerated := tolerates(pod, &corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	return func(node *clusterview.Node) *refusal {
		if !node.Spec.Unschedulable || tolerated {
			return nil
		}
		return &refusal{filter: NodeUnschedulable, reasons: []string{"node(s) were unschedulable"}, final: true}
	}
}

func taintFilter(pod *corev1.Pod) filter {
	return func(node *clusterview.Node) *refusal {
		if untolerated(pod, node) == nil {
			return nil
		}
		return &refusal{filter: TaintToleration, reasons: []string{"node(s) had untolerated taint(s)"}, final: true}
	}
}

// untolerated returns a taint of the node that keeps the pod away.
func untolerated(pod *corev1.Pod, node *clusterview.Node) *corev1.Taint {
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
			return taint
		}
	}
	if taint := soon(node); taint != nil && !tolerates(pod, taint) {
		return taint
	}
	return nil
}

// soon returns the taint that a node is about to get because its Ready condition is false or
// unknown; nil if it is ready or has no such condition. The taint may be late because the
// controller that writes it has a new leader. Until then, a node that is shutting down would get
// back the pods that it has just ended. (In Kubernetes the taint alone decides.)
func soon(node *clusterview.Node) *corev1.Taint {
	switch clusterview.Ready(node.Node) {
	case corev1.ConditionFalse:
		return &corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}
	case corev1.ConditionUnknown:
		return &corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoSchedule}
	}
	return nil
}

func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	// Lt and Gt are behind a feature gate of Kubernetes that is off, and validation refuses them.
	return scheduling.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, taint, false)
}

func portsFilter(pod *corev1.Pod) filter {
	wanted := hostports.Of(pod)
	return func(node *clusterview.Node) *refusal {
		for _, want := range wanted {
			if slices.ContainsFunc(node.Ports, want.Conflicts) {
				return &refusal{filter: NodePorts, reasons: []string{"node(s) didn't have free ports for the requested pod ports"}}
			}
		}
		return nil
	}
}

func resourcesFilter(pod *corev1.Pod) filter {
	// A pod without a node has no resources allocated, whatever its status says.
	wanted := clusterview.Requests(&corev1.Pod{Spec: pod.Spec})
	names := make([]corev1.ResourceName, 0, len(wanted))
	for name, amount := range wanted {
		if amount > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return func(node *clusterview.Node) *refusal {
		r := &refusal{filter: NodeResourcesFit}
		if int64(len(node.Pods))+1 > node.Allocatable[corev1.ResourcePods] {
			r.reasons = append(r.reasons, "Too many pods")
		}
		for _, name := range names {
			if wanted[name] > node.Allocatable[name]-node.Requested[name] {
				r.reasons = append(r.reasons, "Insufficient "+string(name))
				// The pod wants more than the empty node has: removing pods does not help.
				r.final = r.final || wanted[name] > node.Allocatable[name]
			}
		}
		if len(r.reasons) == 0 {
			return nil
		}
		return r
	}
}
