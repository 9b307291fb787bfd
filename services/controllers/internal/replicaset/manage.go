package replicaset

import (
	"context"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/podcontrol"
)

// manage creates the missing pods or deletes the surplus ones, up to burst at a time. It reports whether
// there were any.
func (r *reconciler[T]) manage(ctx context.Context, set T, active []*corev1.Pod) (acted bool, err error) {
	switch surplus := len(active) - int(replicas(r.view(set))); {
	case surplus < 0:
		return true, r.createPods(ctx, set, min(-surplus, burst))
	case surplus > 0:
		return true, r.deletePods(ctx, set, active, min(surplus, burst))
	}
	return false, nil
}

func (r *reconciler[T]) createPods(ctx context.Context, set T, count int) error {
	template := &r.view(set).Spec.Template
	_, err := podcontrol.SlowStart(count, func(int) error {
		return r.control.Create(ctx, set, template, "")
	})
	return err
}

func (r *reconciler[T]) deletePods(ctx context.Context, set T, active []*corev1.Pod, count int) error {
	related, err := r.related(set)
	if err != nil {
		return err
	}
	doomed := chooseToDelete(active, related, count, time.Now())
	faults := make([]error, len(doomed))
	var deletions sync.WaitGroup
	for i, pod := range doomed {
		deletions.Go(func() {
			if err := r.control.Delete(ctx, set, pod); !apierrors.IsNotFound(err) {
				faults[i] = err
			}
		})
	}
	deletions.Wait()
	for _, err := range faults {
		if err != nil {
			return err // The others are most likely the same.
		}
	}
	return nil
}

// related returns the pods of all sets with the same controller, set included, so that a
// Deployment's old and new pods are spread over nodes together.
func (r *reconciler[T]) related(set T) ([]*corev1.Pod, error) {
	siblings := []T{set}
	if owner := metav1.GetControllerOfNoCopy(set); owner != nil {
		for _, other := range r.sets.In(set.GetNamespace()) {
			if ref := metav1.GetControllerOfNoCopy(other); ref != nil && ref.UID == owner.UID && other.GetUID() != set.GetUID() {
				siblings = append(siblings, other)
			}
		}
	}
	var pods []*corev1.Pod
	for _, sibling := range siblings {
		owned, err := r.pods.Controlled(sibling)
		if err != nil {
			return nil, err
		}
		pods = append(pods, owned...)
	}
	return pods, nil
}

// replicas returns how many pods a ReplicaSet asks for; 1 when it does not say (Kubernetes'
// default, which the apiserver fills in).
func replicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}
