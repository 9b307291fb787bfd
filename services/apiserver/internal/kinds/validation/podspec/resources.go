package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// wholePod checks the resources of a pod as a whole.
func wholePod(spec *corev1.PodSpec, claims sets.Set[string], path *field.Path) field.ErrorList {
	if spec.Resources == nil {
		return nil
	}
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(path, "may not be set for a windows pod")}
	}
	var errs field.ErrorList
	if spec.Resources.Claims != nil {
		errs = append(errs, field.Forbidden(path.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, resources.Requirements(spec.Resources, podResource, path)...)
	errs = append(errs, claimed(spec.Resources.Claims, claims, path.Child("claims"))...)
	return append(errs, containersFit(spec, path)...)
}

// podResource checks the name of a resource of a pod as a whole.
func podResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if errs := resources.Name(name, path); len(errs) > 0 {
		return errs
	}
	if !resourcehelper.IsSupportedPodLevelResource(name) {
		return field.ErrorList{field.NotSupported(path, name, sets.List(resourcehelper.SupportedPodLevelResources()))}
	}
	return nil
}

// containersFit checks that the containers of a pod stay within the resources of the pod as a whole.
func containersFit(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	pod, options := &corev1.Pod{Spec: *spec}, resourcehelper.PodResourcesOptions{}
	requests := resourcehelper.AggregateContainerRequests(pod, options)
	for _, name := range resources.Sorted(requests) {
		sum := requests[name]
		if whole, ok := spec.Resources.Requests[name]; ok && sum.Cmp(whole) > 0 {
			errs = append(errs, field.Invalid(path.Child("requests").Key(string(name)), whole.String(),
				"must be greater than or equal to aggregate container requests of "+sum.String()))
		}
	}
	limits := resourcehelper.AggregateContainerLimits(pod, options)
	for _, name := range resources.Sorted(limits) {
		sum := limits[name]
		if whole, ok := spec.Resources.Limits[name]; ok && resources.HugePages(name) && sum.Cmp(whole) > 0 {
			errs = append(errs, field.Invalid(path.Child("limits").Key(string(name)), whole.String(),
				"must be greater than or equal to aggregate container limits of "+sum.String()))
		}
	}
	for i := range spec.Containers {
		own := spec.Containers[i].Resources.Limits
		for _, name := range resources.Sorted(own) {
			limit := own[name]
			if whole, ok := spec.Resources.Limits[name]; ok && limit.Cmp(whole) > 0 {
				errs = append(errs, field.Invalid(path.Child("containers").Index(i).Key(string(name)).Child("limits"), limit.String(),
					"must be less than or equal to pod limits of "+whole.String()))
			}
		}
	}
	return errs
}
