package placement

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// Failure says why a pod could not be placed.
type Failure struct {
	// Pod is the pod that could not be placed.
	Pod *corev1.Pod
	// All is the number of nodes.
	All     int
	refused []refused
	// whole is set if the pod itself is the reason that every node is refused.
	whole *refusal
}

type refused struct {
	node *clusterview.Node
	*refusal
}

// Filters returns the filters that refused a node, sorted: a retry can succeed only if something
// changes for one of them. There are none when there are no nodes.
func (f *Failure) Filters() []Filter {
	var filters []Filter
	if f.whole != nil {
		filters = append(filters, f.whole.filter)
	}
	for _, r := range f.refused {
		filters = append(filters, r.filter)
	}
	slices.Sort(filters)
	return slices.Compact(filters)
}

// Error returns the message of the Event and the condition, word for word as kube-scheduler 1.37
// writes it (pkg/scheduler/framework.FitError). It includes what the preemption plugin adds when it
// preempts nothing, as here. If the pod itself is the reason, kube-scheduler adds "not found"
// instead: an error of its plugin for claims of devices.
func (f *Failure) Error() string {
	if f.All == 0 {
		return "no nodes available to schedule pods"
	}
	var message strings.Builder
	fmt.Fprintf(&message, "0/%d nodes are available: ", f.All)
	if f.whole != nil {
		fmt.Fprintf(&message, "%s.", strings.Join(f.whole.reasons, ", "))
		fmt.Fprintf(&message, " %s", f.preemption())
		return message.String()
	}
	var reasons []string
	for _, r := range f.refused {
		reasons = append(reasons, r.reasons...)
	}
	fmt.Fprintf(&message, "%s. %s", histogram(reasons), f.preemption())
	return message.String()
}

// preemption describes the outcome of looking for pods to preempt.
func (f *Failure) preemption() string {
	const prefix = "preemption: "
	if policy := f.Pod.Spec.PreemptionPolicy; policy != nil && *policy == corev1.PreemptNever {
		return prefix + "not eligible due to preemptionPolicy=Never."
	}
	var reasons []string
	if f.whole != nil {
		for range f.All {
			reasons = append(reasons, "Preemption is not helpful for scheduling")
		}
	}
	for _, r := range f.refused {
		reasons = append(reasons, f.preemptionOn(r))
	}
	return fmt.Sprintf("%s0/%d nodes are available: %s.", prefix, f.All, histogram(reasons))
}

func (f *Failure) preemptionOn(r refused) string {
	if r.final {
		return "Preemption is not helpful for scheduling"
	}
	for _, pod := range r.node.Pods {
		if priority(pod) < priority(f.Pod) {
			// Kubernetes would check whether removing it helps.
			return "preemption of lower-priority pods is not supported"
		}
	}
	return "No preemption victims found for incoming pod"
}

func priority(pod *corev1.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

// histogram counts equal reasons: "1 Insufficient cpu, 2 node(s) were unschedulable".
func histogram(reasons []string) string {
	counts := map[string]int{}
	for _, reason := range reasons {
		counts[reason]++
	}
	parts := make([]string, 0, len(counts))
	for reason, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, reason))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
