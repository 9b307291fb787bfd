package deployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
)

// rollingUpdate replaces old pods with new ones within the bounds: first up, then down, one of them
// per step.
func (r *rollout) rollingUpdate(ctx context.Context) (reconcile.Result, error) {
	if err := r.sync(ctx, true); err != nil {
		return reconcile.Result{}, err
	}
	for _, move := range []func(context.Context) (bool, error){r.growNewest, r.shrinkOld} {
		moved, err := move(ctx)
		if err != nil {
			return reconcile.Result{}, err
		}
		if moved {
			return r.writeProgress(ctx)
		}
	}
	return r.finish(ctx)
}

// growNewest grows the newest ReplicaSet as far as the surge allows.
func (r *rollout) growNewest(ctx context.Context) (bool, error) {
	wanted := replicas(r.d)
	switch {
	case size(r.newest) == wanted:
		return false, nil
	case size(r.newest) > wanted:
		return r.resize(ctx, r.newest, wanted)
	default:
		return r.resize(ctx, r.newest, newSize(r.d, r.all(), r.newest))
	}
}

// shrinkOld removes pods from old ReplicaSets: first the unavailable ones, which serve nothing,
// then as many as leave enough available ones.
func (r *rollout) shrinkOld(ctx context.Context) (bool, error) {
	if sum(r.old, size) == 0 {
		return false, nil
	}
	minimum := replicas(r.d) - boundsOf(r.d).unavailable
	// New pods that are not available yet count as if they never would be. If old pods were removed
	// in their stead, all could end up unavailable.
	unavailable := size(r.newest) - staying(r.newest)
	room := sum(r.all(), size) - minimum - unavailable
	if room <= 0 {
		return false, nil
	}
	unhealthy, err := r.shrinkEach(ctx, room, func(rs *appsv1.ReplicaSet) int32 { return size(rs) - available(rs) })
	if err != nil {
		return false, err
	}
	healthy, err := r.shrinkEach(ctx, sum(r.all(), staying)-minimum, size)
	return unhealthy || healthy, err
}

// staying returns how many available pods a ReplicaSet is sure to have once it has reached its
// size. Its status may still count pods that it was just told to delete. A status that predates the
// last change of size may also count pods that have been replaced since; removing others in their
// stead would leave too few. Kubernetes counts the status alone.
func staying(rs *appsv1.ReplicaSet) int32 {
	if rs.Status.ObservedGeneration < rs.Generation {
		return 0
	}
	return min(available(rs), size(rs))
}

// shrinkEach removes up to most pods from old ReplicaSets, the oldest first, and from each no more
// than limit returns.
func (r *rollout) shrinkEach(ctx context.Context, most int32, limit func(*appsv1.ReplicaSet) int32) (bool, error) {
	shrunk := false
	for _, rs := range active(r.old) {
		by := min(most, limit(rs))
		if by <= 0 {
			continue
		}
		if _, err := r.resize(ctx, rs, size(rs)-by); err != nil {
			return shrunk, err
		}
		most -= by
		shrunk = true
	}
	return shrunk, nil
}

// recreate ends every old pod before it starts a new one.
func (r *rollout) recreate(ctx context.Context) (reconcile.Result, error) {
	shrunk := false
	for _, rs := range active(r.old) {
		if _, err := r.resize(ctx, rs, 0); err != nil {
			return reconcile.Result{}, err
		}
		shrunk = true
	}
	if shrunk {
		return r.writeProgress(ctx)
	}
	running, err := r.oldPodsRun()
	if err != nil {
		return reconcile.Result{}, err
	}
	if running {
		return r.writeProgress(ctx)
	}
	if err := r.sync(ctx, true); err != nil {
		return reconcile.Result{}, err
	}
	if _, err := r.resize(ctx, r.newest, replicas(r.d)); err != nil {
		return reconcile.Result{}, err
	}
	return r.finish(ctx)
}

// oldPodsRun reports whether a pod of an old ReplicaSet may still run. A pod that is being deleted
// may; so may one whose node is unreachable.
func (r *rollout) oldPodsRun() (bool, error) {
	if sum(r.old, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas }) > 0 {
		return true, nil
	}
	pods, err := r.pods.Indexer().ByIndex(informer.NamespaceIndex, r.d.Namespace)
	if err != nil {
		return false, fmt.Errorf("finding the pods of Deployment %s/%s: %w", r.d.Namespace, r.d.Name, err)
	}
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, rs := range r.old {
			if metav1.IsControlledBy(pod, rs) {
				return true, nil
			}
		}
	}
	return false, nil
}
