// Package podcondition writes the conditions of pods, for the subresources that change them.
package podcondition

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Set sets a condition of a pod. The time of its transition is now, unless its status is unchanged.
func Set(pod *corev1.Pod, condition corev1.PodCondition) {
	condition.LastTransitionTime = metav1.Now().Rfc3339Copy()
	condition.ObservedGeneration = pod.Generation
	for i := range pod.Status.Conditions {
		if old := &pod.Status.Conditions[i]; old.Type == condition.Type {
			if old.Status == condition.Status {
				condition.LastTransitionTime = old.LastTransitionTime
			}
			*old = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}
