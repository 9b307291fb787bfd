package core

import (
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// validateLimitRange validates a limit range.
func validateLimitRange(l *corev1.LimitRange) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&l.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	seen := map[corev1.LimitType]bool{}
	for i := range l.Spec.Limits {
		item, path := &l.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		errs = append(errs, limitType(string(item.Type), path.Child("type"))...)
		if seen[item.Type] {
			errs = append(errs, field.Duplicate(path.Child("type"), item.Type))
		}
		seen[item.Type] = true
		errs = append(errs, limitItem(item, path)...)
	}
	return errs
}

// validateLimitRangeUpdate validates an update of a limit range.
func validateLimitRangeUpdate(l, _ *corev1.LimitRange) field.ErrorList { return validateLimitRange(l) }

func limitType(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(name) {
		errs = append(errs, field.Invalid(path, name, msg))
	}
	if len(errs) > 0 || strings.Contains(name, "/") {
		return errs
	}
	switch corev1.LimitType(name) {
	case corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim:
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must be a standard limit type or fully qualified")}
}

func limitItem(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	errs := limitNames(item.Type, item.Max, path.Child("max"))
	errs = append(errs, limitNames(item.Type, item.Min, path.Child("min"))...)
	l := limits{path: path, min: item.Min, max: item.Max, ratio: item.MaxLimitRequestRatio}
	if item.Type == corev1.LimitTypePod {
		if len(item.Default) > 0 {
			errs = append(errs, field.Forbidden(path.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(item.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(path.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
	} else {
		errs = append(errs, limitNames(item.Type, item.Default, path.Child("default"))...)
		errs = append(errs, limitNames(item.Type, item.DefaultRequest, path.Child("defaultRequest"))...)
		l.limit, l.request = item.Default, item.DefaultRequest
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		_, most := item.Max[corev1.ResourceStorage]
		if !least && !most {
			errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	errs = append(errs, limitNames(item.Type, item.MaxLimitRequestRatio, path.Child("maxLimitRequestRatio"))...)
	all := corev1.ResourceList{}
	for _, list := range []corev1.ResourceList{l.min, l.max, l.limit, l.request, l.ratio} {
		maps.Copy(all, list)
	}
	for _, name := range resources.Sorted(all) {
		errs = append(errs, l.compare(name)...)
	}
	return errs
}

func limitNames(limitType corev1.LimitType, list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range resources.Sorted(list) {
		if limitType == corev1.LimitTypePod || limitType == corev1.LimitTypeContainer {
			errs = append(errs, resources.ContainerName(name, path.Key(string(name)))...)
		} else {
			errs = append(errs, resources.Name(name, path.Key(string(name)))...)
		}
	}
	return errs
}

// limits are the bounds and defaults of one item.
type limits struct {
	path                            *field.Path
	min, max, limit, request, ratio corev1.ResourceList
}

// compare checks that the bounds and defaults of a resource are in order.
func (l limits) compare(name corev1.ResourceName) field.ErrorList {
	var errs field.ErrorList
	key := string(name)
	least, hasLeast := l.min[name]
	most, hasMost := l.max[name]
	limit, hasLimit := l.limit[name]
	request, hasRequest := l.request[name]
	ordered := func(both bool, low, high resource.Quantity, child string, value resource.Quantity, lowName, highName string) {
		if both && low.Cmp(high) > 0 {
			errs = append(errs, field.Invalid(l.path.Child(child).Key(key), value,
				fmt.Sprintf("%s value %s is greater than %s value %s", lowName, low.String(), highName, high.String())))
		}
	}
	ordered(hasLeast && hasMost, least, most, "min", least, "min", "max")
	ordered(hasRequest && hasLeast, least, request, "defaultRequest", request, "min", "default request")
	ordered(hasRequest && hasMost, request, most, "defaultRequest", request, "default request", "max")
	ordered(hasRequest && hasLimit, request, limit, "defaultRequest", request, "default request", "default limit")
	ordered(hasLimit && hasLeast, least, limit, "default", least, "min", "default")
	ordered(hasLimit && hasMost, limit, most, "default", most, "default", "max")
	errs = append(errs, l.checkRatio(name)...)
	if !resources.Overcommits(name) && hasLimit && hasRequest && limit.Cmp(request) != 0 {
		errs = append(errs, field.Invalid(l.path.Child("defaultRequest").Key(key), request,
			fmt.Sprintf("default value %s must equal to defaultRequest value %s in %s", limit.String(), request.String(), key)))
	}
	return errs
}

// checkRatio checks the maximum ratio of limit to request.
func (l limits) checkRatio(name corev1.ResourceName) field.ErrorList {
	var errs field.ErrorList
	ratio, ok := l.ratio[name]
	if !ok {
		return nil
	}
	path := l.path.Child("maxLimitRequestRatio").Key(string(name))
	if ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
		errs = append(errs, field.Invalid(path, ratio, fmt.Sprintf("ratio %s is less than 1", ratio.String())))
	}
	least, hasLeast := l.min[name]
	most, hasMost := l.max[name]
	if !hasLeast || !hasMost {
		return errs
	}
	wanted, low, high := float64(ratio.Value()), least.Value(), most.Value()
	if ratio.Value() < resource.MaxMilliValue && low < resource.MaxMilliValue && high < resource.MaxMilliValue {
		wanted, low, high = float64(ratio.MilliValue())/1000, least.MilliValue(), most.MilliValue()
	}
	if possible := float64(high) / float64(low); wanted > possible {
		errs = append(errs, field.Invalid(path, ratio, fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), possible)))
	}
	return errs
}
