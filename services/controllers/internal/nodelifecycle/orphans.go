package nodelifecycle

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// quarantine is how long a node must be gone before its pods are deleted: it may just be
// registering anew (Kubernetes, pkg/controller/podgc).
const quarantine = 40 * time.Second

// goneSince returns since when a node is known to be gone.
func (e *evictor) goneSince(node string, now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, known := e.gone[node]; !known {
		e.gone[node] = now
	}
	return e.gone[node]
}

func (e *evictor) notGone(node string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.gone, node)
}

// collectOrphan deletes a pod whose node no longer exists. Nothing else would ever end it.
func (e *evictor) collectOrphan(ctx context.Context, shared *corev1.Pod) (reconcile.Result, error) {
	node, now := shared.Spec.NodeName, time.Now()
	if left := e.goneSince(node, now).Add(quarantine).Sub(now); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	_, err := e.client.Get(ctx, "", node, metav1.GetOptions{})
	if err == nil {
		// The node is back, and the cache will show it.
		e.notGone(node)
		return reconcile.Result{RequeueAfter: quarantine}, nil
	}
	if !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("reading node %s: %w", node, err)
	}
	pod := shared.DeepCopy()
	if !podstate.Ended(pod) {
		pod.Status.Phase = corev1.PodFailed
		podstate.SetCondition(pod, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByPodGC",
			Message: "PodGC: node no longer exists", LastTransitionTime: metav1.NewTime(now),
		})
		if _, err := e.pods.Client.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			if apierrors.IsNotFound(err) {
				return reconcile.Result{}, nil
			}
			return reconcile.Result{}, fmt.Errorf("marking pod %s/%s of a node that is gone as failed: %w", pod.Namespace, pod.Name, err)
		}
	}
	e.logger.Info("deleting a pod whose node is gone", "namespace", pod.Namespace, "name", pod.Name, "node", node)
	uid := pod.UID
	err = e.pods.Client.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: &metav1.Preconditions{UID: &uid},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("deleting pod %s/%s of a node that is gone: %w", pod.Namespace, pod.Name, err)
	}
	return reconcile.Result{}, nil
}
