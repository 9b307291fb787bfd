package statefulset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

func minReady(set *appsv1.StatefulSet) time.Duration {
	return time.Duration(set.Spec.MinReadySeconds) * time.Second
}

func runningAndReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && podstate.Ready(pod)
}

// count fills in a status's numbers of pods. It returns after how long the next ready pod becomes
// available; 0 if no pod will by time alone.
func count(set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus, pods []*corev1.Pod, now time.Time) time.Duration {
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	status.CurrentReplicas, status.UpdatedReplicas = 0, 0
	var next time.Duration
	for _, pod := range pods {
		status.Replicas++
		if runningAndReady(pod) {
			status.ReadyReplicas++
			available, wait := podstate.Available(pod, minReady(set), now)
			if available {
				status.AvailableReplicas++
			} else if wait > 0 && (next == 0 || wait < next) {
				next = wait
			}
		}
		if pod.DeletionTimestamp != nil {
			continue
		}
		if revisionOf(pod) == status.CurrentRevision {
			status.CurrentReplicas++
		}
		if revisionOf(pod) == status.UpdateRevision {
			status.UpdatedReplicas++
		}
	}
	return next
}

// complete ends a rollout: when all pods are of the new revision and ready, it is the current one.
func complete(set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus) {
	want := int32(replicas(set))
	if status.UpdatedReplicas == want && status.ReadyReplicas == want && status.Replicas == want {
		status.CurrentReplicas, status.CurrentRevision = status.UpdatedReplicas, status.UpdateRevision
	}
}

// updateStatus writes a status that differs from the current one. A collision count is written along with
// something else.
func (r *reconciler) updateStatus(ctx context.Context, set *appsv1.StatefulSet, status appsv1.StatefulSetStatus) error {
	now, before := status, set.Status
	now.CollisionCount, before.CollisionCount = nil, nil
	if equality.Semantic.DeepEqual(now, before) {
		return nil
	}
	set = set.DeepCopy()
	set.Status = status
	if _, err := r.sets.Client.UpdateStatus(ctx, set, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of StatefulSet %s/%s: %w", set.Namespace, set.Name, err)
	}
	return nil
}
