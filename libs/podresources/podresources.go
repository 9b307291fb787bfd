package podresources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Requests returns what pod takes (KEP-753, KEP-1287, KEP-2837): its containers and sidecars
// together, or the most that it needs while one of its init containers runs, if that is more; then
// the overhead. What the pod asks for as a whole replaces the sum of its containers. During a resize
// the most counts of what is wanted, allocated and in effect. The caller owns the list.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	return resource.PodRequests(pod, options())
}

// RequestsOr is Requests with the amounts of missing for each container that names no request for
// the resource.
func RequestsOr(pod *corev1.Pod, missing corev1.ResourceList) corev1.ResourceList {
	opts := options()
	opts.NonMissingContainerRequests = missing
	return resource.PodRequests(pod, opts)
}

// Limits returns the limits of pod, summed like its Requests. The caller owns the list.
func Limits(pod *corev1.Pod) corev1.ResourceList {
	return resource.PodLimits(pod, options())
}

// options are Kubernetes' for a plane where pods can be resized.
func options() resource.PodResourcesOptions {
	return resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
}
