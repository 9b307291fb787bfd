package disruption

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// addStale asks for a reconcile of a pod by the time that its announcement is stale.
func addStale(q controller.Queue, _, now *corev1.Pod) {
	if now == nil {
		return
	}
	if announced, left := staleIn(now, time.Now()); announced {
		q.AddAfter(now, left)
	}
}

// staleIn reports whether a pod is announced as disrupted without being deleted, and how long it
// may remain so. A kubelet's own announcement does not grow stale, since the node may take any time
// to end its pods.
func staleIn(pod *corev1.Pod, now time.Time) (announced bool, left time.Duration) {
	condition := podstate.Condition(pod, corev1.DisruptionTarget)
	if condition == nil || condition.Status != corev1.ConditionTrue || condition.Reason == corev1.PodReasonTerminationByKubelet ||
		pod.DeletionTimestamp != nil || podstate.Ended(pod) {
		return false, 0
	}
	return true, max(condition.LastTransitionTime.Add(staleTimeout).Sub(now), 0)
}

// reconcileStale retracts the announcement of a pod's disruption that did not happen.
func (r *reconciler) reconcileStale(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	pod, found := r.pods.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	announced, left := staleIn(pod, time.Now())
	if !announced {
		return reconcile.Result{}, nil
	}
	if left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	patch, err := podstate.ConditionPatch(pod, pod.ResourceVersion, map[string]any{
		"type": corev1.DisruptionTarget, "status": corev1.ConditionFalse, "lastTransitionTime": metav1.Now(),
		"reason": nil, "message": nil,
	})
	if err != nil {
		return reconcile.Result{}, err
	}
	_, err = r.pods.Client.Patch(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("taking back the announced disruption of pod %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}
