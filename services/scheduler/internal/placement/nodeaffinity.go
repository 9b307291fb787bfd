package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// suits returns a function that reports whether a node has the labels and the name that pod
// requires. An unreadable term, which validation refuses, matches no node.
func suits(pod *corev1.Pod) func(*clusterview.Node) bool {
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	return func(node *clusterview.Node) bool {
		matches, err := required.Match(node.Node)
		return err == nil && matches
	}
}

func nodeAffinityFilter(pod *corev1.Pod) filter {
	suits := suits(pod)
	return func(node *clusterview.Node) *refusal {
		if suits(node) {
			return nil
		}
		return &refusal{filter: NodeAffinity, reasons: []string{"node(s) didn't match Pod's node affinity/selector"}, final: true}
	}
}

// namedNodes are the only nodes that a pod can go to, if it names nodes.
type namedNodes struct {
	// by are the filters that name nodes, sorted; empty if any node is possible.
	by    []Filter
	names []string
}

// nodesByName returns the nodes that a pod names, or says why there can be none.
func nodesByName(pod *corev1.Pod) (namedNodes, *refusal) {
	names, only := namesInAffinity(pod)
	switch {
	case only && len(names) == 0:
		return namedNodes{}, &refusal{filter: NodeAffinity, final: true, reasons: []string{"pod affinity terms conflict"}}
	case pod.Spec.NodeName == "" && only:
		return namedNodes{by: []Filter{NodeAffinity}, names: names}, nil
	case pod.Spec.NodeName == "":
		return namedNodes{}, nil
	case !only:
		return namedNodes{by: []Filter{NodeName}, names: []string{pod.Spec.NodeName}}, nil
	}
	both := []Filter{NodeAffinity, NodeName}
	if !slices.Contains(names, pod.Spec.NodeName) {
		return namedNodes{}, &refusal{filter: NodeAffinity, final: true, reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v simultaneously", both)}}
	}
	return namedNodes{by: both, names: []string{pod.Spec.NodeName}}, nil
}

// namesInAffinity returns the names of the only nodes that pod's affinity allows, and whether it
// names any: each of its terms must select nodes by name.
func namesInAffinity(pod *corev1.Pod) (names []string, only bool) {
	affinity := pod.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil, false
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		named, found := []string(nil), false
		for _, field := range term.MatchFields {
			if field.Key != metav1.ObjectNameField || field.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if !found {
				named, found = slices.Clone(field.Values), true
				continue
			}
			named = slices.DeleteFunc(named, func(name string) bool { return !slices.Contains(field.Values, name) })
		}
		if !found {
			return nil, false
		}
		names, only = append(names, named...), true
	}
	return names, only
}

// filter refuses the other nodes. It precedes all other filters: those are not asked about such
// nodes.
func (n namedNodes) filter() filter {
	return func(node *clusterview.Node) *refusal {
		if len(n.by) == 0 || slices.Contains(n.names, node.Name) {
			return nil
		}
		return &refusal{filter: n.by[0], reasons: []string{fmt.Sprintf("node(s) didn't satisfy plugin(s) %v", n.by)}, final: true}
	}
}

// preferredNodes scores nodes by the sum of the weights of the preferred terms that they match.
func preferredNodes(pod *corev1.Pod, nodes []*clusterview.Node) []int64 {
	scores := make([]int64, len(nodes))
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return scores
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return scores // An unreadable preference has no effect; validation refuses it anyway.
	}
	for i, node := range nodes {
		scores[i] = terms.Score(node.Node)
	}
	return scores
}
