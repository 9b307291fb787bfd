package placement

import (
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

// namedNodes returns the names of the only nodes that pod's affinity allows, and whether it names
// any: each of its terms must select nodes by name.
func namedNodes(pod *corev1.Pod) (names []string, only bool) {
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

// namedNodesFilter refuses nodes that pod's affinity cannot select by name. It precedes all other
// filters: those are not asked about such nodes.
func namedNodesFilter(pod *corev1.Pod) filter {
	names, only := namedNodes(pod)
	return func(node *clusterview.Node) *refusal {
		if !only || slices.Contains(names, node.Name) {
			return nil
		}
		return &refusal{filter: NodeAffinity, reasons: []string{"node(s) didn't satisfy plugin(s) [NodeAffinity]"}, final: true}
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
