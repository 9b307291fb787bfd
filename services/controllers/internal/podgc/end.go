package podgc

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// atOnce bounds the pods that are deleted at a time.
const atOnce = 20

// sweep looks at all pods from time to time, until ctx ends. Faults are logged: the next look finds the
// same pods.
func (r *reconciler) sweep(ctx context.Context) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		pods := r.pods.Indexer().List()
		unscheduled := func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil && pod.Spec.NodeName == "" }
		all := func(*corev1.Pod) bool { return true }
		err := errors.Join(r.end(ctx, pods, "unscheduled", unscheduled, nil), r.end(ctx, surplus(pods, r.threshold), "terminated", all, nil))
		if err != nil && ctx.Err() == nil {
			r.logger.Warn("collecting pods", "err", err)
		}
	}
}

// surplus returns the pods that have ended, as far as there are more than threshold: evicted ones first,
// then the oldest.
func surplus(pods []*corev1.Pod, threshold int) []*corev1.Pod {
	var ended []*corev1.Pod
	for _, pod := range pods {
		if podstate.Ended(pod) {
			ended = append(ended, pod)
		}
	}
	if threshold <= 0 || len(ended) <= threshold {
		return nil
	}
	slices.SortFunc(ended, func(a, b *corev1.Pod) int {
		if evictedA, evictedB := evicted(a), evicted(b); evictedA != evictedB {
			if evictedA {
				return -1
			}
			return 1
		}
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return ended[:len(ended)-threshold]
}

// evicted reports whether a node has evicted a pod.
func evicted(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && pod.Status.Reason == "Evicted"
}

// end deletes those of the pods that pass a filter, and marks them as failed before, with a condition
// unless that is nil. The reason is for the metrics.
func (r *reconciler) end(
	ctx context.Context, pods []*corev1.Pod, reason string, filter func(*corev1.Pod) bool, condition *corev1.PodCondition,
) error {
	faults := make([]error, len(pods))
	places := make(chan struct{}, atOnce)
	var calls sync.WaitGroup
	for i, pod := range pods {
		if !filter(pod) {
			continue
		}
		places <- struct{}{}
		calls.Go(func() {
			defer func() { <-places }()
			r.deletions.WithLabelValues(pod.Namespace, reason).Inc()
			if err := r.endOne(ctx, pod, condition); err != nil && !apierrors.IsNotFound(err) {
				r.faults.WithLabelValues(pod.Namespace, reason).Inc()
				faults[i] = fmt.Errorf("ending pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
		})
	}
	calls.Wait()
	return errors.Join(faults...)
}

func (r *reconciler) endOne(ctx context.Context, pod *corev1.Pod, condition *corev1.PodCondition) error {
	if !podstate.Ended(pod) {
		// No node will ever say that the pod has ended, and its controller waits for it.
		patch, err := failed(pod, condition)
		if err != nil {
			return err
		}
		_, err = r.podClient.Patch(ctx, pod.Namespace, pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
		if err != nil {
			return err
		}
	}
	return r.podClient.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(pod.UID)),
	})
}

// failed returns the patch that marks a pod as failed.
func failed(pod *corev1.Pod, condition *corev1.PodCondition) ([]byte, error) {
	status := map[string]any{"phase": corev1.PodFailed, "observedGeneration": pod.Generation}
	if condition != nil {
		now := *condition
		now.LastTransitionTime, now.ObservedGeneration = metav1.Now(), pod.Generation
		if current := podstate.Condition(pod, now.Type); current != nil && current.Status == now.Status {
			now.LastTransitionTime = current.LastTransitionTime
		}
		status["conditions"] = []corev1.PodCondition{now}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		return nil, fmt.Errorf("encoding a patch of a pod's status: %w", err)
	}
	return patch, nil
}
