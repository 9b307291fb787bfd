package placement

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// Verdict is how a node suits a pod.
type Verdict struct {
	Node *clusterview.Node
	// Filter is the first filter that refuses the node; empty if the node can run the pod.
	Filter Filter
	// Reasons are those of the filter.
	Reasons []string
	// Final says that removing pods from the node would not help.
	Final bool
	// Scores are the node's scores by plugin, from 0 to 100, and Total is their weighted sum. There
	// are none for the only node that can run the pod.
	Scores map[string]int64
	Total  int64
}

// Explain returns how Place judges each node, in no particular order. The failure is the one that
// Place returns; nil if a node can run the pod.
func Explain(pod *corev1.Pod, cluster Cluster) ([]Verdict, *Failure) {
	fit, failure := judge(pod, cluster)
	verdicts := make([]Verdict, 0, len(cluster.Nodes))
	if whole := failure.whole; whole != nil {
		for _, node := range cluster.Nodes {
			verdicts = append(verdicts, Verdict{Node: node, Filter: whole.filter, Reasons: whole.reasons, Final: whole.final})
		}
	}
	for _, r := range failure.refused {
		verdicts = append(verdicts, Verdict{Node: r.node, Filter: r.filter, Reasons: r.reasons, Final: r.final})
	}
	if len(fit) == 0 {
		return verdicts, failure
	}
	scored := make([]Verdict, len(fit))
	for i, node := range fit {
		scored[i] = Verdict{Node: node}
	}
	if len(fit) > 1 {
		for i := range scored {
			scored[i].Scores = map[string]int64{}
		}
		for _, s := range scorersFor(pod, cluster, fit) {
			for i, score := range s.scores {
				scored[i].Scores[s.plugin] = score
				scored[i].Total += s.weight * score
			}
		}
	}
	return append(verdicts, scored...), nil
}

// Whole reports whether the pod itself is the reason that every node is refused.
func (f *Failure) Whole() bool { return f.whole != nil }
