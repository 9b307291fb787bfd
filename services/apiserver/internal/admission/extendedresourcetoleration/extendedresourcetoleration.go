// Package extendedresourcetoleration is the plugin ExtendedResourceToleration.
package extendedresourcetoleration

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// Plugin returns the plugin. It lets a pod that requests an extended resource tolerate the taint of
// that name, by which nodes with the resource keep other pods off.
func Plugin() admission.Plugin { return admission.Plugin{Mutate: mutate} }

func mutate(_ context.Context, req *admission.Request) error {
	pod, ok := req.Object.(*corev1.Pod)
	if !ok || req.Verb == admission.Delete || req.Subresource != "" {
		return nil
	}
	var names []string
	for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
		for name := range c.Resources.Requests {
			if resources.Extended(name) {
				names = append(names, string(name))
			}
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		tolerate(pod, corev1.Toleration{Key: name, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
	}
	return nil
}

// tolerate adds a toleration, or replaces those that match it.
func tolerate(pod *corev1.Pod, added corev1.Toleration) {
	found := false
	for i := range pod.Spec.Tolerations {
		if added.MatchToleration(&pod.Spec.Tolerations[i]) {
			pod.Spec.Tolerations[i], found = added, true
		}
	}
	if !found {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, added)
	}
}
