package placement

import (
	corev1 "k8s.io/api/core/v1"
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

// preferredNodes scores nodes by the sum of the weights of the preferred terms that they match.
func preferredNodes(pod *corev1.Pod, nodes []*clusterview.Node) []float64 {
	scores := make([]float64, len(nodes))
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return scores
	}
	terms, err := nodeaffinity.NewPreferredSchedulingTerms(pod.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	if err != nil {
		return scores // An unreadable preference has no effect; validation refuses it anyway.
	}
	for i, node := range nodes {
		scores[i] = float64(terms.Score(node.Node))
	}
	return scores
}
