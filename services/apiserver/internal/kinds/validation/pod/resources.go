package pod

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// Resources validates the resources of a container. claims are the names of the claims of its pod.
func Resources(r *corev1.ResourceRequirements, claims sets.Set[string], path *field.Path) field.ErrorList {
	return requirements(r, resources.ContainerName, claims, path)
}

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
	errs = append(errs, requirements(spec.Resources, podResource, claims, path)...)
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

// requirements checks limits and requests, whose names must be valid by name, and references to claims.
func requirements(
	r *corev1.ResourceRequirements, name func(corev1.ResourceName, *field.Path) field.ErrorList, claims sets.Set[string], path *field.Path,
) field.ErrorList {
	errs := resourceList(r.Limits, name, path.Child("limits"))
	errs = append(errs, resourceList(r.Requests, name, path.Child("requests"))...)
	for _, name := range resources.Sorted(r.Requests) {
		request, at := r.Requests[name], path.Child("requests")
		limit, limited := r.Limits[name]
		switch {
		case limited && !resources.Overcommits(name) && request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		case !limited && !resources.Overcommits(name):
			errs = append(errs, field.Required(path.Child("limits"), "Limit must be set for non overcommitable resources"))
		}
	}
	if has(r, resources.HugePages) && !has(r, func(name corev1.ResourceName) bool {
		return name == corev1.ResourceCPU || name == corev1.ResourceMemory
	}) {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return append(errs, claimed(r.Claims, claims, path.Child("claims"))...)
}

// has reports whether requirements name a resource for which wanted returns true.
func has(r *corev1.ResourceRequirements, wanted func(corev1.ResourceName) bool) bool {
	for _, list := range []corev1.ResourceList{r.Limits, r.Requests} {
		for name := range list {
			if wanted(name) {
				return true
			}
		}
	}
	return false
}

// wholePages reports whether an amount of huge pages is a multiple of their size.
func wholePages(name corev1.ResourceName, quantity resource.Quantity) bool {
	size, err := resource.ParseQuantity(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	return err == nil && size.Sign() > 0 && size.MilliValue()%1000 == 0 && quantity.Value()%size.Value() == 0
}

func resourceList(
	list corev1.ResourceList, valid func(corev1.ResourceName, *field.Path) field.ErrorList, path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	for _, name := range resources.Sorted(list) {
		quantity, at := list[name], path.Key(string(name))
		errs = append(errs, valid(name, at)...)
		if quantity.Cmp(resource.Quantity{}) < 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be greater than or equal to 0"))
		}
		if resources.Whole(name) && quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be an integer"))
		}
		if resources.HugePages(name) && !wholePages(name, quantity) {
			errs = append(errs, field.Invalid(at, quantity.String(), fmt.Sprintf("%s is not positive integer multiple of %s", quantity.String(), name)))
		}
	}
	return errs
}
