package podresources

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
)

// Requests returns the resources that pod takes (KEP-753, KEP-1287, KEP-2837). That is the sum of
// its containers and sidecars, or the maximum while one of its init containers runs, if that is
// more; plus the overhead. Pod-level requests replace the sum of the containers. During a resize
// the maximum of the desired, allocated and actual resources counts. The caller owns the list.
func Requests(pod *corev1.Pod) corev1.ResourceList {
	return resource.PodRequests(pod, options())
}

// RequestsOr is Requests with the amounts of missing for each container without a request for the
// resource.
func RequestsOr(pod *corev1.Pod, missing corev1.ResourceList) corev1.ResourceList {
	opts := options()
	opts.NonMissingContainerRequests = missing
	return resource.PodRequests(pod, opts)
}

// Limits returns the limits of pod, summed like its Requests. The caller owns the list.
func Limits(pod *corev1.Pod) corev1.ResourceList {
	return resource.PodLimits(pod, options())
}

// options returns Kubernetes' options for a cluster where pods can be resized.
func options() resource.PodResourcesOptions {
	return resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
}
