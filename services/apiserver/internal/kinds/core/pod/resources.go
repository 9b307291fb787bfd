package pod

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// keepWhole keeps the resources of a pod as a whole if a client that does not know them drops them.
func keepWhole(p, old *corev1.Pod) {
	if p.Spec.Resources == nil {
		p.Spec.Resources = old.Spec.Resources.DeepCopy()
	}
}

// wholeResources completes the resources of a pod as a whole, if it has any, from those of its containers:
// limits of huge pages, then requests, then limits of what every container limits.
func wholeResources(p *corev1.Pod) {
	whole := p.Spec.Resources
	if whole == nil || len(whole.Requests) == 0 && len(whole.Limits) == 0 {
		return
	}
	containers, options := &corev1.Pod{Spec: corev1.PodSpec{Containers: p.Spec.Containers, InitContainers: p.Spec.InitContainers}}, resourcehelper.PodResourcesOptions{}
	limits := resourcehelper.AggregateContainerLimits(containers, options)
	for name, limit := range limits {
		if _, requested := whole.Requests[name]; !requested && resources.HugePages(name) {
			missing(&whole.Limits, name, limit)
		}
	}
	for name, request := range resourcehelper.AggregateContainerRequests(containers, options) {
		if resourcehelper.IsSupportedPodLevelResource(name) && resources.Overcommits(name) {
			missing(&whole.Requests, name, request)
		}
	}
	for name, limit := range whole.Limits {
		if resourcehelper.IsSupportedPodLevelResource(name) {
			missing(&whole.Requests, name, limit)
		}
	}
	for name, request := range whole.Requests {
		limit, ok := limits[name]
		if !ok || !resourcehelper.IsSupportedPodLevelResource(name) || !allLimit(&p.Spec, name) {
			continue
		}
		if request.Cmp(limit) > 0 {
			limit = request
		}
		missing(&whole.Limits, name, limit)
	}
}

// missing sets an amount in a list that lacks it.
func missing(list *corev1.ResourceList, name corev1.ResourceName, amount resource.Quantity) {
	if _, ok := (*list)[name]; ok {
		return
	}
	if *list == nil {
		*list = corev1.ResourceList{}
	}
	(*list)[name] = amount.DeepCopy()
}

// allLimit reports whether every container has a limit for a resource.
func allLimit(spec *corev1.PodSpec, name corev1.ResourceName) bool {
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if _, ok := list[i].Resources.Limits[name]; !ok {
				return false
			}
		}
	}
	return len(spec.EphemeralContainers) == 0
}
