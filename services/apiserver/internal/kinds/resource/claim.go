package resource

import (
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func claim(c *resourcev1.DeviceClaim, path *field.Path) field.ErrorList {
	names := requestNames(c)
	errs := set(c.Requests, resourcev1.DeviceRequestsMaxSize, path.Child("requests"),
		func(r *resourcev1.DeviceRequest) string { return r.Name }, request)
	errs = append(errs, each(c.Constraints, resourcev1.DeviceConstraintsMaxSize, path.Child("constraints"),
		func(k *resourcev1.DeviceConstraint, path *field.Path) field.ErrorList {
			return references(k.Requests, names, path)
		})...)
	return append(errs, each(c.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"),
		func(k *resourcev1.DeviceClaimConfiguration, path *field.Path) field.ErrorList {
			return append(references(k.Requests, names, path), configuration(&k.DeviceConfiguration, path)...)
		})...)
}

// requestNames returns the names by which a claim's requests can be referenced.
func requestNames(c *resourcev1.DeviceClaim) []string {
	var names []string
	for i := range c.Requests {
		r := &c.Requests[i]
		names = append(names, r.Name)
		for j := range r.FirstAvailable {
			names = append(names, r.Name+"/"+r.FirstAvailable[j].Name)
		}
	}
	return names
}

func references(list, names []string, path *field.Path) field.ErrorList {
	return set(list, resourcev1.DeviceRequestsMaxSize, path.Child("requests"), func(s *string) string { return *s },
		func(s *string, path *field.Path) field.ErrorList { return reference(*s, names, path) })
}

func reference(name string, names []string, path *field.Path) field.ErrorList {
	unknown := field.Invalid(path, name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
	segments := strings.Split(name, "/")
	if len(segments) > 2 {
		return field.ErrorList{unknown}
	}
	var errs field.ErrorList
	for _, s := range segments {
		errs = append(errs, label(s, path)...)
	}
	if !slices.Contains(names, name) {
		errs = append(errs, unknown)
	}
	return errs
}

func request(r *resourcev1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := label(r.Name, path.Child("name"))
	switch {
	case r.Exactly == nil && len(r.FirstAvailable) == 0:
		return append(errs, field.Required(path, "exactly one of `exactly` or `firstAvailable` is required"))
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		return append(errs, field.Invalid(path, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case r.Exactly != nil:
		e := r.Exactly
		return append(errs, demand(e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations, path.Child("exactly"))...)
	}
	return append(errs, set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, path.Child("firstAvailable"),
		func(s *resourcev1.DeviceSubRequest) string { return s.Name },
		func(s *resourcev1.DeviceSubRequest, path *field.Path) field.ErrorList {
			return append(label(s.Name, path.Child("name")), demand(s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Tolerations, path)...)
		})...)
}

// demand checks what requests and their alternatives share.
func demand(class string, selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, count int64, tolerations []resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	errs := subdomain(class, path.Child("deviceClassName"))
	errs = append(errs, each(selectors, resourcev1.DeviceSelectorsMaxSize, path.Child("selectors"), selector)...)
	switch at := path.Child("count"); mode {
	case resourcev1.DeviceAllocationModeAll:
		if count != 0 {
			errs = append(errs, field.Invalid(at, count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode)))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if count <= 0 {
			errs = append(errs, field.Invalid(at, count, "must be greater than zero"))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("allocationMode"), mode,
			[]resourcev1.DeviceAllocationMode{resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount}))
	}
	return append(errs, each(tolerations, resourcev1.DeviceTolerationsMaxLength, path.Child("tolerations"), toleration)...)
}

func subdomain(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return invalid(name, validation.IsDNS1123Subdomain(name), path)
}

func toleration(t *resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = metav1validation.ValidateLabelName(t.Key, path.Child("key"))
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, invalid(t.Value, validation.IsValidLabelValue(t.Value), path.Child("value"))...)
	case "":
		errs = append(errs, field.Required(path.Child("operator"), ""))
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), t.Operator,
			[]resourcev1.DeviceTolerationOperator{resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists}))
	}
	if t.Effect != "" {
		errs = append(errs, effect(t.Effect, path.Child("effect"))...)
	}
	return errs
}
