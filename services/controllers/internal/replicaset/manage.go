package replicaset

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/garboard/garboard/services/controllers/internal/controllerref"
)

// manage creates the missing pods or deletes the surplus ones, up to burst at a time.
func (r *reconciler) manage(ctx context.Context, rs *appsv1.ReplicaSet, active []*corev1.Pod) error {
	switch surplus := len(active) - int(replicas(rs)); {
	case surplus < 0:
		return r.createPods(ctx, rs, min(-surplus, burst))
	case surplus > 0:
		return r.deletePods(ctx, rs, active, min(surplus, burst))
	}
	return nil
}

func (r *reconciler) createPods(ctx context.Context, rs *appsv1.ReplicaSet, count int) error {
	return slowStart(count, func() error {
		err := r.createPod(ctx, rs)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			// Every creation will fail until the namespace is gone, and this ReplicaSet with it.
			return nil
		}
		return err
	})
}

func (r *reconciler) createPod(ctx context.Context, rs *appsv1.ReplicaSet) error {
	pod, err := newPod(rs, r.sets.Client.Kind().GroupVersionKind)
	if err != nil {
		r.events.Event(rs, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		return err
	}
	created, err := r.pods.Client.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			r.events.Event(rs, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
		}
		return err // Unwrapped: it becomes the message of a condition.
	}
	r.events.Event(rs, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %s", created.Name)
	return nil
}

// newPod builds a pod from the ReplicaSet's template, controlled by the ReplicaSet.
func newPod(rs *appsv1.ReplicaSet, kind schema.GroupVersionKind) (*corev1.Pod, error) {
	template := rs.Spec.Template
	if len(template.Labels) == 0 {
		return nil, errors.New("unable to create pods, no labels")
	}
	prefix := rs.Name + "-"
	if len(validation.IsDNS1123Subdomain(rs.Name)) > 0 {
		prefix = rs.Name
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rs.Namespace, GenerateName: prefix,
			Labels: maps.Clone(template.Labels), Annotations: maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{controllerref.Reference(rs, kind)},
		},
		Spec: *template.Spec.DeepCopy(),
	}, nil
}

func (r *reconciler) deletePods(ctx context.Context, rs *appsv1.ReplicaSet, active []*corev1.Pod, count int) error {
	related, err := r.related(rs)
	if err != nil {
		return err
	}
	doomed := chooseToDelete(active, related, count, time.Now())
	faults := make([]error, len(doomed))
	var deletions sync.WaitGroup
	for i, pod := range doomed {
		deletions.Go(func() {
			if err := r.deletePod(ctx, rs, pod); !apierrors.IsNotFound(err) {
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

func (r *reconciler) deletePod(ctx context.Context, rs *appsv1.ReplicaSet, pod *corev1.Pod) error {
	// The UID spares another pod that has taken the name.
	err := r.pods.Client.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil {
		if !apierrors.IsNotFound(err) {
			r.events.Event(rs, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
		}
		return err
	}
	r.events.Event(rs, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %s", pod.Name)
	return nil
}

// related returns the pods of all ReplicaSets with the same controller, rs included, so that a
// Deployment's old and new pods are spread over nodes together.
func (r *reconciler) related(rs *appsv1.ReplicaSet) ([]*corev1.Pod, error) {
	siblings := []*appsv1.ReplicaSet{rs}
	if owner := metav1.GetControllerOfNoCopy(rs); owner != nil {
		for _, other := range r.sets.In(rs.Namespace) {
			if ref := metav1.GetControllerOfNoCopy(other); ref != nil && ref.UID == owner.UID && other.UID != rs.UID {
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

// slowStart calls f up to count times, in concurrent batches, each twice as large as the one
// before. If nothing can be created (a quota, a bad template), few calls find it out. It returns
// the first error of the batch that had one; no further batch starts after it.
func slowStart(count int, f func() error) error {
	for done, size := 0, min(count, 1); size > 0; size = min(2*size, count-done) {
		faults := make(chan error, size)
		var batch sync.WaitGroup
		for range size {
			batch.Go(func() {
				if err := f(); err != nil {
					faults <- err
				}
			})
		}
		batch.Wait()
		if len(faults) > 0 {
			return <-faults
		}
		done += size
	}
	return nil
}

// replicas returns how many pods a ReplicaSet asks for; 1 when it does not say (Kubernetes'
// default, which the apiserver fills in).
func replicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}
