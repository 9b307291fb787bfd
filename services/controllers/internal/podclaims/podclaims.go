// Package podclaims finds the claims of pods, and the pods of claims.
package podclaims

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// index finds pods by the keys of their claims.
const index = "claims of pods"

// Index returns the watch that adds the index that Users reads.
func Index(pods informer.SharedInformer[*corev1.Pod]) controller.Watch {
	return controller.Indexed(pods, index, func(pod *corev1.Pod) ([]string, error) { return Keys(pod), nil })
}

// Keys returns the keys of the claims of a pod, those of its ephemeral volumes included.
func Keys(pod *corev1.Pod) []string {
	var keys []string
	for i := range pod.Spec.Volumes {
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			keys = append(keys, informer.KeyOf(pod.Namespace, v.PersistentVolumeClaim.ClaimName))
		case v.Ephemeral != nil:
			keys = append(keys, informer.KeyOf(pod.Namespace, ephemeral.VolumeClaimName(pod, v)))
		}
	}
	return keys
}

// Users returns the pods with a volume of a claim, also those whose ephemeral volume would have a claim
// of that name.
func Users(pods informer.SharedInformer[*corev1.Pod], claim *corev1.PersistentVolumeClaim) ([]*corev1.Pod, error) {
	found, err := pods.Indexer().ByIndex(index, informer.Key(claim))
	if err != nil {
		return nil, fmt.Errorf("finding the pods of claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return found, nil
}

// Names reports whether a volume of a pod names a claim.
func Names(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for i := range pod.Spec.Volumes {
		if v := pod.Spec.Volumes[i].PersistentVolumeClaim; v != nil && v.ClaimName == claim.Name {
			return pod.Namespace == claim.Namespace
		}
	}
	return false
}

// Owns reports whether a claim was made for an ephemeral volume of a pod.
func Owns(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.Ephemeral != nil && ephemeral.VolumeClaimName(pod, v) == claim.Name {
			return ephemeral.VolumeIsForPod(pod, claim) == nil
		}
	}
	return false
}
