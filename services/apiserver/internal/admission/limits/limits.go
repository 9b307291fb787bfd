// Package limits is the plugin LimitRanger. It applies LimitRanges to pods and claims: defaults for
// containers that don't set their resources, and checks for too little, too much or too high a ratio.
// The words are those of Kubernetes' LimitRanger plugin.
package limits

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	podresource "k8s.io/component-helpers/resource"
)

// annotation lists on a pod the defaults that were set.
const annotation = "kubernetes.io/limit-ranger"

// setDefaults sets r's default requests and limits on the containers of pod that have none, and lists
// them in the pod's annotation.
func setDefaults(r *corev1.LimitRange, pod *corev1.Pod) {
	var given corev1.ResourceRequirements
	given.Requests, given.Limits = corev1.ResourceList{}, corev1.ResourceList{}
	for _, item := range r.Spec.Limits {
		if item.Type == corev1.LimitTypeContainer {
			maps.Copy(given.Requests, item.DefaultRequest)
			maps.Copy(given.Limits, item.Default)
		}
	}
	var notes []string
	for i := range pod.Spec.Containers {
		notes = append(notes, fill(&pod.Spec.Containers[i], "container", given)...)
	}
	for i := range pod.Spec.InitContainers {
		notes = append(notes, fill(&pod.Spec.InitContainers[i], "init container", given)...)
	}
	if len(notes) == 0 {
		return
	}
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[annotation] = "LimitRanger plugin set: " + strings.Join(notes, "; ")
}

// fill sets the missing requests and limits of one container, and describes them.
func fill(c *corev1.Container, sort string, given corev1.ResourceRequirements) []string {
	var notes []string
	add := func(has *corev1.ResourceList, gets corev1.ResourceList, what string) {
		var names []string
		for name, value := range gets {
			if _, ok := (*has)[name]; ok {
				continue
			}
			if *has == nil {
				*has = corev1.ResourceList{}
			}
			(*has)[name] = value.DeepCopy()
			names = append(names, string(name))
		}
		if len(names) > 0 {
			slices.Sort(names)
			notes = append(notes, fmt.Sprintf("%s %s for %s %s", strings.Join(names, ", "), what, sort, c.Name))
		}
	}
	add(&c.Resources.Requests, given.Requests, "request")
	add(&c.Resources.Limits, given.Limits, "limit")
	return notes
}

// checkPod returns how pod violates r, or nil if it doesn't.
func checkPod(r *corev1.LimitRange, pod *corev1.Pod) error {
	var errs []error
	for _, item := range r.Spec.Limits {
		switch item.Type {
		case corev1.LimitTypeContainer:
			for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
				for i := range containers {
					errs = append(errs, check(item, containers[i].Resources.Requests, containers[i].Resources.Limits)...)
				}
			}
		case corev1.LimitTypePod:
			requests, limits := podResources(pod)
			errs = append(errs, check(item, requests, limits)...)
		}
	}
	return aggregate(errs)
}

// podResources returns the requests and limits of a whole pod as its spec has them, without
// overhead: the sums of its containers', or those of the pod. As in Kubernetes' plugin, only the
// pod's CPU and memory count, and not its huge pages.
func podResources(pod *corev1.Pod) (requests, limits corev1.ResourceList) {
	opts := podresource.PodResourcesOptions{ExcludeOverhead: true, SkipPodLevelResources: true}
	requests, limits = podresource.PodRequests(pod, opts), podresource.PodLimits(pod, opts)
	if pod.Spec.Resources == nil {
		return requests, limits
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if request, ok := pod.Spec.Resources.Requests[name]; ok {
			requests[name] = request
		}
		if limit, ok := pod.Spec.Resources.Limits[name]; ok {
			limits[name] = limit
		}
	}
	return requests, limits
}

// checkClaim returns how claim violates r, or nil if it doesn't.
func checkClaim(r *corev1.LimitRange, claim *corev1.PersistentVolumeClaim) error {
	var errs []error
	for _, item := range r.Spec.Limits {
		if item.Type != corev1.LimitTypePersistentVolumeClaim {
			continue
		}
		for _, name := range sorted(item.Min) {
			errs = append(errs, least(item.Type, name, item.Min[name], claim.Spec.Resources.Requests, nil))
		}
		for _, name := range sorted(item.Max) {
			errs = append(errs, mostRequested(item.Type, name, item.Max[name], claim.Spec.Resources.Requests))
		}
	}
	return aggregate(errs)
}

func check(item corev1.LimitRangeItem, requests, limits corev1.ResourceList) []error {
	var errs []error
	for _, name := range sorted(item.Min) {
		errs = append(errs, least(item.Type, name, item.Min[name], requests, limits))
	}
	for _, name := range sorted(item.Max) {
		errs = append(errs, most(item.Type, name, item.Max[name], requests, limits))
	}
	for _, name := range sorted(item.MaxLimitRequestRatio) {
		errs = append(errs, uneven(item.Type, name, item.MaxLimitRequestRatio[name], requests, limits))
	}
	return errs
}

func aggregate(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 0 {
		return nil
	}
	return utilerrors.NewAggregate(errs)
}

// sorted gives refusals a fixed order.
func sorted(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// values are quantities in one unit.
type values struct{ request, limit, bound int64 }

// inOneUnit returns quantities in thousandths, or in units if one of them is too large for that.
// Fractions are rounded up.
func inOneUnit(request, limit, bound resource.Quantity) values {
	units := values{request.Value(), limit.Value(), bound.Value()}
	if max(units.request, units.limit, units.bound) > resource.MaxMilliValue {
		return units
	}
	return values{request.MilliValue(), limit.MilliValue(), bound.MilliValue()}
}

func least(of corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	are := inOneUnit(request, limit, bound)
	switch {
	case !requested:
		return fmt.Errorf("minimum %s usage per %s is %s.  No request is specified", name, of, bound.String())
	case are.request < are.bound:
		return fmt.Errorf("minimum %s usage per %s is %s, but request is %s", name, of, bound.String(), request.String())
	case limited && are.limit < are.bound:
		return fmt.Errorf("minimum %s usage per %s is %s, but limit is %s", name, of, bound.String(), limit.String())
	}
	return nil
}

func most(of corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	are := inOneUnit(request, limit, bound)
	switch {
	case !limited:
		return fmt.Errorf("maximum %s usage per %s is %s.  No limit is specified", name, of, bound.String())
	case are.limit > are.bound:
		return fmt.Errorf("maximum %s usage per %s is %s, but limit is %s", name, of, bound.String(), limit.String())
	case requested && are.request > are.bound:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, of, bound.String(), request.String())
	}
	return nil
}

func mostRequested(of corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests corev1.ResourceList) error {
	request, requested := requests[name]
	are := inOneUnit(request, resource.Quantity{}, bound)
	switch {
	case !requested:
		return fmt.Errorf("maximum %s usage per %s is %s.  No request is specified", name, of, bound.String())
	case are.request > are.bound:
		return fmt.Errorf("maximum %s usage per %s is %s, but request is %s", name, of, bound.String(), request.String())
	}
	return nil
}

// uneven returns an error if a limit is more than bound times its request.
func uneven(of corev1.LimitType, name corev1.ResourceName, bound resource.Quantity, requests, limits corev1.ResourceList) error {
	request, requested := requests[name]
	limit, limited := limits[name]
	are := inOneUnit(request, limit, bound)
	ratio := float64(are.limit) / float64(are.request)
	var why error
	switch {
	case !requested || are.request == 0:
		why = errors.New("no request is specified or request is 0")
	case !limited || are.limit == 0:
		why = errors.New("no limit is specified or limit is 0")
	case exceeds(ratio, bound):
		why = fmt.Errorf("provided ratio is %f", ratio)
	default:
		return nil
	}
	return fmt.Errorf("%s max limit to request ratio per %s is %s, but %w", name, of, bound.String(), why)
}

// exceeds compares thousandths, or whole numbers if bound is too large for that.
func exceeds(ratio float64, bound resource.Quantity) bool {
	if bound.Value() > resource.MaxMilliValue {
		return ratio > float64(bound.Value())
	}
	return ratio*1000 > float64(bound.MilliValue())
}
