package resources

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"

	libquantity "github.com/garboard/garboard/libs/quantity"
)

// Requirements validates limits and requests; name checks the name of each resource.
func Requirements(r *corev1.ResourceRequirements, name func(corev1.ResourceName, *field.Path) field.ErrorList, path *field.Path) field.ErrorList {
	errs := resourceList(r.Limits, name, path.Child("limits"))
	errs = append(errs, resourceList(r.Requests, name, path.Child("requests"))...)
	for _, name := range Sorted(r.Requests) {
		request, at := r.Requests[name], path.Child("requests")
		limit, limited := r.Limits[name]
		switch {
		case limited && !Overcommits(name) && request.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case limited && request.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(at, request.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		case !limited && !Overcommits(name):
			errs = append(errs, field.Required(path.Child("limits"), "Limit must be set for non overcommitable resources"))
		}
	}
	if has(r, HugePages) && !has(r, func(name corev1.ResourceName) bool {
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

// wholePages reports whether an amount of huge pages is a multiple of their size.
func wholePages(name corev1.ResourceName, quantity resource.Quantity) bool {
	size, err := libquantity.Parse(strings.TrimPrefix(string(name), corev1.ResourceHugePagesPrefix))
	return err == nil && size.Sign() > 0 && size.MilliValue()%1000 == 0 && quantity.Value()%size.Value() == 0
}

func resourceList(
	list corev1.ResourceList, valid func(corev1.ResourceName, *field.Path) field.ErrorList, path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	for _, name := range Sorted(list) {
		quantity, at := list[name], path.Key(string(name))
		errs = append(errs, valid(name, at)...)
		if quantity.Cmp(resource.Quantity{}) < 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be greater than or equal to 0"))
		}
		if whole(name) && quantity.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, quantity.String(), "must be an integer"))
		}
		if HugePages(name) && !wholePages(name, quantity) {
			errs = append(errs, field.Invalid(at, quantity.String(), fmt.Sprintf("%s is not positive integer multiple of %s", quantity.String(), name)))
		}
	}
	return errs
}
