package statefulset

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// partition returns how many pods a rollout leaves at the current revision.
func partition(set *appsv1.StatefulSet) int {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.Partition == nil {
		return 0
	}
	return int(*rolling.Partition)
}

// maxUnavailable returns how many pods may be unavailable in a rollout; at least 1.
func maxUnavailable(set *appsv1.StatefulSet) (int, error) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil {
		return 1, nil
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(rolling.MaxUnavailable, replicas(set), false)
	if err != nil {
		return 0, fmt.Errorf("reading maxUnavailable of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	return max(most, 1), nil
}

// unavailableReplicas returns how many of the pods that the set asks for are missing or not available.
func (u *update) unavailableReplicas() int {
	unavailable := replicas(u.set) - len(u.pods)
	for _, pod := range u.pods {
		if u.unavailable(pod) {
			unavailable++
		}
	}
	return unavailable
}

// rollOut deletes pods of another revision than the new one, the highest ordinal first, so that their
// successors are made from the new one.
func (u *update) rollOut(ctx context.Context) error {
	most, err := maxUnavailable(u.set)
	if err != nil {
		return err
	}
	unavailable := u.unavailableReplicas()
	var old []*corev1.Pod // that the rollout reaches, by descending ordinal
	broken := false       // means that an old pod, also below the partition, is unavailable
	for _, ordinal := range slices.Backward(slices.Sorted(maps.Keys(u.pods))) {
		pod := u.pods[ordinal]
		if pod.DeletionTimestamp != nil || revisionOf(pod) == u.known.update.Name {
			continue
		}
		broken = broken || !u.available(pod)
		if ordinal-start(u.set) >= partition(u.set) {
			old = append(old, pod)
		}
	}
	if unavailable >= most && (u.ordered || !broken) {
		return nil
	}
	if !u.ordered {
		// Those that serve nobody go first, and do not count: a rollout that is stuck must get free.
		var serving []*corev1.Pod
		for _, pod := range old {
			if u.available(pod) {
				serving = append(serving, pod)
			} else if err := u.replace(ctx, pod); err != nil {
				return err
			}
		}
		old = serving
	}
	for _, pod := range old[:min(max(most-unavailable, 0), len(old))] {
		if err := u.replace(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (u *update) replace(ctx context.Context, pod *corev1.Pod) error {
	if err := u.deletePod(ctx, u.set, pod); err != nil {
		return err
	}
	if revisionOf(pod) == u.known.current.Name {
		u.replaced++
	}
	return nil
}
