package placement

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/scheduler/internal/clusterview"
)

// maxScore is the score of the best node; the worst has 0.
const maxScore = 100

// scorer is one criterion, with the name of Kubernetes' plugin and its default weight.
type scorer struct {
	plugin string
	weight int64
	// scores are in the order of the nodes; each is between 0 and maxScore.
	scores []int64
}

// scorersFor scores the nodes that can run a pod. All scores are whole numbers, rounded as in
// Kubernetes, so that the same nodes are equally good.
func scorersFor(pod *corev1.Pod, cluster Cluster, nodes []*clusterview.Node) []scorer {
	return []scorer{
		{"TaintToleration", 3, fewest(taintScores(pod, nodes))},
		{"NodeAffinity", 2, most(preferredNodes(pod, nodes))},
		{"NodeResourcesFit", 1, leastAllocated(pod, nodes)},
		{"PodTopologySpread", 2, spreadScores(pod, cluster, nodes)},
		{"InterPodAffinity", 2, span(podAffinityScores(pod, cluster, nodes))},
		{"NodeResourcesBalancedAllocation", 1, balancedAllocation(pod, nodes)},
		{"VolumeBinding", 1, volumeScores(pod, cluster, nodes)},
	}
}

// most scales non-negative counts so that the highest becomes the best score.
func most(counts []int64) []int64 {
	highest := slices.Max(counts)
	for i := range counts {
		if highest > 0 {
			counts[i] = maxScore * counts[i] / highest
		}
	}
	return counts
}

// fewest scales non-negative counts so that the lowest becomes the best score.
func fewest(counts []int64) []int64 {
	scores := most(counts)
	for i := range scores {
		scores[i] = maxScore - scores[i]
	}
	return scores
}

// span scales any counts so that the lowest becomes 0 and the highest the best score.
func span(counts []int64) []int64 {
	lowest, highest := slices.Min(counts), slices.Max(counts)
	for i := range counts {
		if highest == lowest {
			counts[i] = 0
		} else {
			// The order of the operations determines how the result is rounded.
			counts[i] = int64(maxScore * (float64(counts[i]-lowest) / float64(highest-lowest)))
		}
	}
	return counts
}

// taintScores counts the PreferNoSchedule taints that the pod does not tolerate.
func taintScores(pod *corev1.Pod, nodes []*clusterview.Node) []int64 {
	counts := make([]int64, len(nodes))
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

// scored are the resources by which nodes are scored.
var scored = [...]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}

// leastAllocated prefers nodes that have much left.
func leastAllocated(pod *corev1.Pod, nodes []*clusterview.Node) []int64 {
	wanted := clusterview.NonZeroRequests(pod)
	scores := make([]int64, len(nodes))
	for i, node := range nodes {
		var sum, resources int64
		for _, name := range scored {
			has := node.Allocatable[name]
			if has == 0 {
				continue
			}
			resources++
			sum += max(0, has-node.NonZero[name]-wanted[name]) * maxScore / has
		}
		if resources > 0 {
			scores[i] = sum / resources
		}
	}
	return scores
}

// balancedAllocation prefers nodes where the pod brings the used shares of CPU and memory closer
// together. A pod that requests neither changes nothing.
func balancedAllocation(pod *corev1.Pod, nodes []*clusterview.Node) []int64 {
	wanted := clusterview.Requests(pod)
	scores := make([]int64, len(nodes))
	if wanted[corev1.ResourceCPU] == 0 && wanted[corev1.ResourceMemory] == 0 {
		return scores
	}
	for i, node := range nodes {
		scores[i] = maxScore/2 + (maxScore/2+balance(node, wanted)-balance(node, nil))/2
	}
	return scores
}

// balance returns the best score if equal shares of CPU and memory are used with added, and half of
// it if all of one and nothing of the other is.
func balance(node *clusterview.Node, added clusterview.Resources) int64 {
	var shares [len(scored)]float64
	for i, name := range scored {
		has := node.Allocatable[name]
		if has == 0 {
			return maxScore
		}
		shares[i] = min(1, float64(node.Requested[name]+added[name])/float64(has))
	}
	// Half the difference is the standard deviation of two values.
	return int64((1 - math.Abs((shares[0]-shares[1])/2)) * maxScore)
}
