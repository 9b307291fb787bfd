package replicaset

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// deletionCost is the annotation by which a user ranks pods for deletion: the pod with the lowest
// cost goes first (k8s.io/api/core/v1.PodDeletionCost).
const deletionCost = corev1.PodDeletionCost

// chooseToDelete returns the count pods that are the cheapest to lose. related are all pods that
// serve the same purpose, including sibling ReplicaSets' pods.
func chooseToDelete(pods, related []*corev1.Pod, count int, now time.Time) []*corev1.Pod {
	if count >= len(pods) {
		return pods
	}
	onNode := map[string]int{}
	for _, pod := range related {
		if podstate.Active(pod) {
			onNode[pod.Spec.NodeName]++
		}
	}
	sorted := slices.Clone(pods)
	slices.SortStableFunc(sorted, func(a, b *corev1.Pod) int {
		return compareForDeletion(a, b, onNode, now)
	})
	return sorted[:count]
}

// compareForDeletion sorts the pod to delete first to the front. The order is Kubernetes'
// (pkg/controller.ActivePodsWithRanks): without a node; pending, unknown, running; not ready; lower
// deletion cost; more related pods on its node; ready for a shorter time; more restarts; younger.
// Times compare by their order of magnitude, so that among pods of about the same age any may go
// (KEP-2185).
func compareForDeletion(a, b *corev1.Pod, onNode map[string]int, now time.Time) int {
	if byNode := compareBool(a.Spec.NodeName != "", b.Spec.NodeName != ""); byNode != 0 {
		return byNode
	}
	if byPhase := cmp.Compare(phaseOrder(a), phaseOrder(b)); byPhase != 0 {
		return byPhase
	}
	ready := podstate.Ready(a)
	if byReady := compareBool(ready, podstate.Ready(b)); byReady != 0 {
		return byReady
	}
	if byCost := cmp.Compare(costOf(a), costOf(b)); byCost != 0 {
		return byCost
	}
	if byCrowd := cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]); byCrowd != 0 {
		return byCrowd
	}
	if ready {
		sinceA, sinceB := podstate.ReadySince(a).Time, podstate.ReadySince(b).Time
		if !sinceA.Equal(sinceB) {
			return compareAge(a, b, sinceA, sinceB, now)
		}
	}
	if byRestarts := compareRestarts(a, b); byRestarts != 0 {
		return byRestarts
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return compareAge(a, b, a.CreationTimestamp.Time, b.CreationTimestamp.Time, now)
	}
	return 0
}

func phaseOrder(pod *corev1.Pod) int {
	switch pod.Status.Phase {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	default: // Pending; ended pods never reach this function.
		return 0
	}
}

// costOf returns a pod's deletion cost; 0 when it has none or an unreadable one, which validation
// refuses.
func costOf(pod *corev1.Pod) int64 {
	cost, err := strconv.ParseInt(pod.Annotations[deletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return cost
}

// compareAge sorts the younger first. An unknown time is younger than any.
func compareAge(a, b *corev1.Pod, timeA, timeB, now time.Time) int {
	if timeA.IsZero() || timeB.IsZero() {
		return compareBool(!timeA.IsZero(), !timeB.IsZero())
	}
	if byMagnitude := cmp.Compare(magnitude(now.Sub(timeA)), magnitude(now.Sub(timeB))); byMagnitude != 0 {
		return byMagnitude
	}
	return cmp.Compare(a.UID, b.UID) // As good as random, yet always the same.
}

func magnitude(age time.Duration) int {
	if age <= 0 {
		return -1
	}
	return int(math.Log2(float64(age)))
}

// compareRestarts sorts the pod with more restarts first: by ordinary containers, then by init
// containers that run beside them.
func compareRestarts(a, b *corev1.Pod) int {
	regularA, sidecarA := podstate.Restarts(a)
	regularB, sidecarB := podstate.Restarts(b)
	return cmp.Or(cmp.Compare(regularB, regularA), cmp.Compare(sidecarB, sidecarA))
}

// compareBool sorts false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
