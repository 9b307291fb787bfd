package deployment

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resized reports whether the desired number of pods has changed since the ReplicaSets were last
// sized. If so, all are scaled together, and a rollout in progress waits.
func (r *rollout) resized() bool {
	for _, rs := range active(r.all()) {
		if desired, known := intAnnotation(rs, desiredReplicasAnnotation); known && desired != replicas(r.d) {
			return true
		}
	}
	return false
}

// rescale sizes the ReplicaSets of a Deployment that is paused or whose size has changed.
func (r *rollout) rescale(ctx context.Context) error {
	if err := r.scaleAll(ctx); err != nil {
		return err
	}
	if r.d.Spec.Paused {
		if err := r.cleanup(ctx); err != nil {
			return err
		}
	}
	return r.writeCounts(ctx)
}

func (r *rollout) scaleAll(ctx context.Context) error {
	wanted := replicas(r.d)
	if only := r.activeOrLatest(); only != nil {
		if size(only) == wanted {
			return nil
		}
		_, err := r.resize(ctx, only, wanted)
		return err
	}
	if r.saturated() {
		for _, rs := range active(r.old) {
			if _, err := r.resize(ctx, rs, 0); err != nil {
				return err
			}
		}
		return nil
	}
	if r.d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return nil
	}
	sets := active(r.all())
	allowed := int32(0)
	if wanted > 0 {
		allowed = wanted + boundsOf(r.d).surge
	}
	sizes := proportions(r.d, sets, allowed-sum(sets, size))
	for _, rs := range sets {
		if _, err := r.write(ctx, rs, sizes[rs]); err != nil {
			return err
		}
	}
	return nil
}

// activeOrLatest returns the only ReplicaSet with pods, or the newest if none has any; nil if
// several have.
func (r *rollout) activeOrLatest() *appsv1.ReplicaSet {
	switch with := active(r.all()); {
	case len(with) == 1:
		return with[0]
	case len(with) > 1:
		return nil
	case r.newest != nil:
		return r.newest
	case len(r.old) > 0:
		return slices.MaxFunc(r.old, byCreation)
	default:
		return nil
	}
}

// saturated reports whether the newest ReplicaSet has all desired pods, available.
func (r *rollout) saturated() bool {
	if r.newest == nil {
		return false
	}
	desired, known := intAnnotation(r.newest, desiredReplicasAnnotation)
	wanted := replicas(r.d)
	return known && desired == wanted && size(r.newest) == wanted && available(r.newest) == wanted
}

// resize changes a ReplicaSet's size, and reports whether it had to.
func (r *rollout) resize(ctx context.Context, rs *appsv1.ReplicaSet, to int32) (bool, error) {
	if size(rs) == to {
		return false, nil
	}
	return r.write(ctx, rs, to)
}

// write brings a ReplicaSet's size, and its annotations about the Deployment's size, up to date. It
// reports whether it wrote.
func (r *rollout) write(ctx context.Context, rs *appsv1.ReplicaSet, to int32) (bool, error) {
	from := size(rs)
	next := rs.DeepCopy()
	next.Spec.Replicas = &to
	if !setSizes(next, replicas(r.d), replicas(r.d)+boundsOf(r.d).surge) && from == to {
		return false, nil
	}
	updated, err := r.replicaSets.Client.Update(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return false, fmt.Errorf("scaling ReplicaSet %s from %d to %d: %w", rs.Name, from, to, err)
	}
	r.replace(updated)
	switch {
	case to > from:
		r.events.Event(r.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from %d to %d", rs.Name, from, to)
	case to < from:
		r.events.Event(r.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled down replica set %s from %d to %d", rs.Name, from, to)
	}
	return true, nil
}

// replace updates the rollout's copies with the ReplicaSet that the API returned.
func (r *rollout) replace(updated *appsv1.ReplicaSet) {
	if r.newest != nil && r.newest.UID == updated.UID {
		r.newest = updated
	}
	for _, sets := range [][]*appsv1.ReplicaSet{r.old, r.sets} {
		for i, rs := range sets {
			if rs.UID == updated.UID {
				sets[i] = updated
			}
		}
	}
}
