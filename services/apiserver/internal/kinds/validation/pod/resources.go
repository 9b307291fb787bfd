package pod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// hugePages is the prefix of the names of huge page resources.
const hugePages = corev1.ResourceHugePagesPrefix

// Resources validates the resources of a container or a pod.
func Resources(r *corev1.ResourceRequirements, path *field.Path) field.ErrorList {
	errs := resourceList(r.Limits, path.Child("limits"))
	errs = append(errs, resourceList(r.Requests, path.Child("requests"))...)
	for _, name := range sortedNames(r.Requests) {
		request, at := r.Requests[name], path.Child("requests")
		limit, limited := r.Limits[name]
		switch {
		case limited && !overcommits(name) && request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		case !limited && !overcommits(name):
			errs = append(errs, field.Required(path.Child("limits"), "Limit must be set for non overcommitable resources"))
		}
	}
	if has(r, func(name corev1.ResourceName) bool { return strings.HasPrefix(string(name), hugePages) }) &&
		!has(r, func(name corev1.ResourceName) bool {
			return name == corev1.ResourceCPU || name == corev1.ResourceMemory
		}) {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return errs
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

// wholePages returns an error message if an amount of huge pages is not a multiple of their size.
func wholePages(name corev1.ResourceName, quantity resource.Quantity) string {
	text, huge := strings.CutPrefix(string(name), hugePages)
	if !huge {
		return ""
	}
	size, err := resource.ParseQuantity(text)
	if err != nil || size.Sign() <= 0 || quantity.Value()%size.Value() == 0 {
		return ""
	}
	return fmt.Sprintf("%s is not positive integer multiple of %s", quantity.String(), name)
}

func resourceList(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(list) {
		quantity, at := list[name], path.Key(string(name))
		errs = append(errs, resourceName(name, at)...)
		if quantity.Cmp(resource.Quantity{}) < 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be greater than or equal to 0"))
		}
		if !native(name) && quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be an integer"))
		}
		if msg := wholePages(name, quantity); msg != "" {
			errs = append(errs, field.Invalid(at, quantity.String(), msg))
		}
	}
	return errs
}

// resourceName checks the name of a resource that a container may request.
func resourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if errs := qualified(string(name), path); len(errs) > 0 {
		return errs
	}
	if strings.Contains(string(name), "/") {
		if strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
			return field.ErrorList{field.Invalid(path, name, "doesn't follow extended resource name standard")}
		}
		for _, msg := range validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix + string(name)) {
			return field.ErrorList{field.Invalid(path, name, msg)}
		}
		return nil
	}
	if !native(name) {
		return field.ErrorList{
			field.Invalid(path, name, "must be a standard resource type or fully qualified"),
			field.Invalid(path, name, "must be a standard resource for containers"),
		}
	}
	return nil
}

func native(name corev1.ResourceName) bool {
	return overcommits(name) || strings.HasPrefix(string(name), hugePages)
}

// overcommits reports whether a container's limit may exceed its request.
func overcommits(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
