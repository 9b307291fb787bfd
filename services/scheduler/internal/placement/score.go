package placement

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// maxScore is the score of the best node; the worst has 0.
const maxScore = 100

// scorer is one criterion, with Kubernetes' default weight.
type scorer struct {
	weight float64
	scores []float64
}

func scorersFor(pod *corev1.Pod, cluster Cluster, nodes []*clusterview.Node) []scorer {
	least, balanced := resourceScores(pod, nodes)
	return []scorer{
		{3, fewest(taintScores(pod, nodes))},
		{2, most(preferredNodes(pod, nodes))},
		{1, least},
		{1, balanced},
		{2, spreadScores(pod, cluster, nodes)},
		{2, span(podAffinityScores(pod, cluster, nodes))},
	}
}

// most scales non-negative counts so that the highest becomes the best score.
func most(counts []float64) []float64 {
	highest := slices.Max(counts)
	for i := range counts {
		if highest == 0 {
			counts[i] = 0
		} else {
			counts[i] = counts[i] / highest * maxScore
		}
	}
	return counts
}

// fewest scales non-negative counts so that the lowest becomes the best score.
func fewest(counts []float64) []float64 {
	scores := most(counts)
	for i := range scores {
		scores[i] = maxScore - scores[i]
	}
	return scores
}

// span scales any counts so that the lowest becomes 0 and the highest the best score.
func span(counts []float64) []float64 {
	lowest, highest := slices.Min(counts), slices.Max(counts)
	for i := range counts {
		if highest == lowest {
			counts[i] = 0
		} else {
			counts[i] = (counts[i] - lowest) / (highest - lowest) * maxScore
		}
	}
	return counts
}

// taintScores counts the PreferNoSchedule taints that the pod does not tolerate.
func taintScores(pod *corev1.Pod, nodes []*clusterview.Node) []float64 {
	counts := make([]float64, len(nodes))
	for i, node := range nodes {
		for j := range node.Spec.Taints {
			taint := &node.Spec.Taints[j]
			if taint.Effect == corev1.TaintEffectPreferNoSchedule && !tolerates(pod, taint) {
				counts[i]++
			}
		}
	}
	return counts
}

// resourceScores prefers nodes that have much left (least allocated), and nodes where CPU and
// memory would be used in similar proportions (balanced).
func resourceScores(pod *corev1.Pod, nodes []*clusterview.Node) (least, balanced []float64) {
	wanted, exact := clusterview.NonZeroRequests(pod), clusterview.Requests(pod)
	least, balanced = make([]float64, len(nodes)), make([]float64, len(nodes))
	for i, node := range nodes {
		var parts []float64
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			has := float64(node.Allocatable[name])
			if has == 0 {
				continue
			}
			taken := math.Min(float64(node.NonZero[name]+wanted[name])/has, 1)
			least[i] += (1 - taken) * maxScore / 2
			parts = append(parts, math.Min(float64(node.Requested[name]+exact[name])/has, 1))
		}
		balanced[i] = maxScore
		if len(parts) == 2 {
			// Half the difference is the standard deviation of two values.
			balanced[i] = (1 - math.Abs(parts[0]-parts[1])/2) * maxScore
		}
	}
	return least, balanced
}
