package nodelifecycle

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// reconcilePod deletes a pod that does not, or no longer, tolerate its node's NoExecute taints, or
// whose node is gone.
func (r *run) reconcilePod(ctx context.Context, key string) (reconcile.Result, error) {
	pod, found := r.pods.Indexer().GetByKey(key)
	if !found || pod.Spec.NodeName == "" {
		return reconcile.Result{}, nil
	}
	node, found := r.nodes.Indexer().GetByKey(pod.Spec.NodeName)
	if !found {
		return r.collectOrphan(ctx, pod)
	}
	if pod.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	taints := noExecute(node)
	now := time.Now()
	leaves, at := departure(pod.Spec.Tolerations, taints, r.seenSince(pod, len(taints) > 0, now))
	switch {
	case !leaves:
		return reconcile.Result{}, nil
	case at.After(now):
		return reconcile.Result{RequeueAfter: at.Sub(now)}, nil
	default:
		return reconcile.Result{}, r.evict(ctx, pod)
	}
}

// seenSince returns since when a pod's node has been seen with NoExecute taints. It stands in for
// taints that do not say when they were added.
func (r *run) seenSince(pod *corev1.Pod, tainted bool, now time.Time) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	uid := string(pod.UID)
	if !tainted {
		delete(r.since, uid)
		return now
	}
	if _, known := r.since[uid]; !known {
		r.since[uid] = now
	}
	return r.since[uid]
}

// departure reports whether a pod must leave a node with these NoExecute taints, and when. The pod
// leaves at once if it does not tolerate one of them, else when its first toleration ends.
func departure(tolerations []corev1.Toleration, taints []corev1.Taint, since time.Time) (leaves bool, at time.Time) {
	for i := range taints {
		added := since
		if taints[i].TimeAdded != nil {
			added = taints[i].TimeAdded.Time
		}
		tolerated, seconds := false, (*int64)(nil)
		for j := range tolerations {
			if tolerations[j].ToleratesTaint(logr.Discard(), &taints[i], false) {
				tolerated, seconds = true, tolerations[j].TolerationSeconds
				break
			}
		}
		ends := added
		switch {
		case tolerated && seconds == nil:
			continue
		case tolerated:
			ends = added.Add(time.Duration(max(*seconds, 0)) * time.Second)
		}
		if !leaves || ends.Before(at) {
			leaves, at = true, ends
		}
	}
	return leaves, at
}

func (r *run) evict(ctx context.Context, shared *corev1.Pod) error {
	pod := shared.DeepCopy()
	r.events.Event(pod, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s/%s", pod.Namespace, pod.Name)
	if current := podstate.Condition(pod, corev1.DisruptionTarget); current == nil || current.Status != corev1.ConditionTrue {
		podstate.SetCondition(pod, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager",
			Message: "Taint manager: deleting due to NoExecute taint", LastTransitionTime: metav1.Now(),
		})
		if _, err := r.podClient.UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("marking pod %s/%s as about to be deleted: %w", pod.Namespace, pod.Name, err)
		}
	}
	err := r.podClient.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s/%s because of its node's taints: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
