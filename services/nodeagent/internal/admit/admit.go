// Package admit decides whether the node takes a pod: whether the pod fits and may run here, and
// whether the node agent supports everything its spec requests.
package admit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/garboard/garboard/libs/hostports"
	"github.com/garboard/garboard/libs/podresources"
)

// Rejection is the reason why the node does not take a pod. Reason becomes the failed pod's reason,
// and Message the text of the Event.
type Rejection struct{ Reason, Message string }

// The reasons that depend on the Node's labels and taints.
const (
	nodeAffinity    = "NodeAffinity"
	taintToleration = "TaintToleration"
)

// DependsOnNode reports whether a newer version of the Node may take the pod: its labels or taints are the
// reason of the rejection.
func (r *Rejection) DependsOnNode() bool {
	return r.Reason == nodeAffinity || r.Reason == taintToleration
}

// Check decides whether node takes pod in addition to others, the pods that it has already taken
// and that have not ended. nil means that it does. The order of the checks is the kubelet's (kubernetes,
// pkg/kubelet/lifecycle/predicate.go).
func Check(pod *corev1.Pod, others []*corev1.Pod, node *corev1.Node) *Rejection {
	if lacking := room(pod, others, node); lacking != nil {
		return lacking
	}
	// A term that cannot be parsed, which validation rejects, matches no node.
	if matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil || !matches {
		return &Rejection{nodeAffinity, "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"}
	}
	wanted := hostports.Of(pod)
	for _, other := range others {
		for _, taken := range hostports.Of(other) {
			if slices.ContainsFunc(wanted, taken.Conflicts) {
				return &Rejection{"NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"}
			}
		}
	}
	for i := range node.Spec.Taints {
		taint := &node.Spec.Taints[i]
		// The scheduler heeds the other effects. Lt and Gt are behind a feature gate of Kubernetes that is off.
		if taint.Effect == corev1.TaintEffectNoExecute &&
			!scheduling.TolerationsTolerateTaint(logr.Discard(), pod.Spec.Tolerations, taint, false) {
			return &Rejection{taintToleration, "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"}
		}
	}
	return nil
}

// room decides whether node has the resources that pod requests in addition to others.
func room(pod *corev1.Pod, others []*corev1.Pod, node *corev1.Node) *Rejection {
	if limit, ok := node.Status.Allocatable[corev1.ResourcePods]; ok && int64(len(others)) >= limit.Value() {
		return outOf(corev1.ResourcePods, 1, int64(len(others)), limit.Value())
	}
	want, taken := podresources.Requests(pod), corev1.ResourceList{}
	for _, other := range others {
		for name, amount := range podresources.Requests(other) {
			sum := taken[name]
			sum.Add(amount)
			taken[name] = sum
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		asked := want[name]
		if asked.IsZero() {
			continue
		}
		used, limit := taken[name], node.Status.Allocatable[name]
		value := (*resource.Quantity).Value
		if name == corev1.ResourceCPU {
			value = (*resource.Quantity).MilliValue
		}
		if value(&used)+value(&asked) > value(&limit) {
			return outOf(name, value(&asked), value(&used), value(&limit))
		}
	}
	return nil
}

func outOf(name corev1.ResourceName, asked, used, limit int64) *Rejection {
	return &Rejection{
		"OutOf" + string(name),
		fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, asked, used, limit),
	}
}
