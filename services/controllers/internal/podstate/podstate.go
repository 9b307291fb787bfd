// Package podstate answers the questions that controllers ask about a pod's state: whether it
// counts, is ready, and is available.
package podstate

import (
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Active reports whether a pod counts as a replica: it has not ended and is not being deleted
// (Kubernetes, pkg/controller.IsPodActive).
func Active(pod *corev1.Pod) bool { return !Ended(pod) && pod.DeletionTimestamp == nil }

// Terminating reports whether a pod is being deleted and has not ended yet (Kubernetes,
// pkg/controller.IsPodTerminating).
func Terminating(pod *corev1.Pod) bool { return !Ended(pod) && pod.DeletionTimestamp != nil }

// Ended reports whether a pod's containers have ended for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// Stopped reports whether a pod has ended, or is being deleted and no container of it runs (Kubernetes,
// pkg/volume/util.IsPodTerminated).
func Stopped(pod *corev1.Pod) bool {
	return Ended(pod) || pod.DeletionTimestamp != nil && !running(pod.Status.InitContainerStatuses) &&
		!running(pod.Status.ContainerStatuses) && !running(pod.Status.EphemeralContainerStatuses)
}

// running reports whether a container neither waits nor has ended.
func running(statuses []corev1.ContainerStatus) bool {
	for i := range statuses {
		if statuses[i].State.Terminated == nil && statuses[i].State.Waiting == nil {
			return true
		}
	}
	return false
}

// Ready reports whether a pod's Ready condition is true.
func Ready(pod *corev1.Pod) bool {
	condition := Condition(pod, corev1.PodReady)
	return condition != nil && condition.Status == corev1.ConditionTrue
}

// ReadySince returns when a ready pod became ready; the zero time if it is not ready.
func ReadySince(pod *corev1.Pod) metav1.Time {
	condition := Condition(pod, corev1.PodReady)
	if condition == nil || condition.Status != corev1.ConditionTrue {
		return metav1.Time{}
	}
	return condition.LastTransitionTime
}

// Available reports whether a pod has been ready for minReady. If it is ready but not yet for that
// long, wait is the remaining time (Kubernetes, pkg/api/v1/pod.IsPodAvailable).
func Available(pod *corev1.Pod, minReady time.Duration, now time.Time) (available bool, wait time.Duration) {
	if !Ready(pod) {
		return false, 0
	}
	if minReady == 0 {
		return true, 0
	}
	since := ReadySince(pod)
	if since.IsZero() {
		return false, 0
	}
	wait = since.Add(minReady).Sub(now)
	return wait <= 0, max(wait, 0)
}

// Condition returns a condition of a pod; nil if it has none of that type.
func Condition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// ConditionPatch returns a strategic merge patch of a pod's status that sets a condition, or fields of one by their
// JSON names. It fails for another pod of that name and, unless revision is empty, once the pod has changed since.
func ConditionPatch(pod *corev1.Pod, revision string, condition any) ([]byte, error) {
	metadata := map[string]any{"uid": pod.UID}
	if revision != "" {
		metadata["resourceVersion"] = revision
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return nil, fmt.Errorf("encoding a condition of pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return patch, nil
}

// Restarts returns the most restarts of a pod's ordinary containers, and of its init containers that run
// beside them.
func Restarts(pod *corev1.Pod) (regular, sidecar int32) {
	for i := range pod.Status.ContainerStatuses {
		regular = max(regular, pod.Status.ContainerStatuses[i].RestartCount)
	}
	sidecars := map[string]bool{}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		sidecars[c.Name] = c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	}
	for i := range pod.Status.InitContainerStatuses {
		if s := &pod.Status.InitContainerStatuses[i]; sidecars[s.Name] {
			sidecar = max(sidecar, s.RestartCount)
		}
	}
	return regular, sidecar
}
