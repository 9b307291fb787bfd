package resource

import (
	"context"
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func claim(c *resourcev1.DeviceClaim, path *field.Path) field.ErrorList {
	names := requestNames(c)
	errs := set(c.Requests, resourcev1.DeviceRequestsMaxSize, path.Child("requests"),
		func(r *resourcev1.DeviceRequest) string { return r.Name }, request)
	errs = append(errs, each(c.Constraints, resourcev1.DeviceConstraintsMaxSize, path.Child("constraints"),
		func(k *resourcev1.DeviceConstraint, path *field.Path) field.ErrorList {
			return constraint(k, names, path)
		})...)
	return append(errs, each(c.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"),
		func(k *resourcev1.DeviceClaimConfiguration, path *field.Path) field.ErrorList {
			return append(references(k.Requests, names, path), configuration(&k.DeviceConfiguration, false, path)...)
		})...)
}

// requested holds the names of a claim's requests, and for each the names of its alternatives.
type requested map[string]map[string]bool

// has reports whether a name, or two that a slash separates, are those of a request and its alternative.
func (r requested) has(name string) bool {
	first, second, nested := strings.Cut(name, "/")
	alternatives, ok := r[first]
	return ok && (!nested || alternatives[second])
}

// requestNames returns the names by which a claim's requests can be referenced.
func requestNames(c *resourcev1.DeviceClaim) requested {
	names := requested{}
	for i := range c.Requests {
		alternatives := map[string]bool{}
		for j := range c.Requests[i].FirstAvailable {
			alternatives[c.Requests[i].FirstAvailable[j].Name] = true
		}
		names[c.Requests[i].Name] = alternatives
	}
	return names
}

func references(list []string, names requested, path *field.Path) field.ErrorList {
	return set(list, resourcev1.DeviceRequestsMaxSize, path.Child("requests"), func(s *string) string { return *s },
		func(s *string, path *field.Path) field.ErrorList { return reference(*s, names, path) })
}

func reference(name string, names requested, path *field.Path) field.ErrorList {
	unknown := field.Invalid(path, name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'")
	segments := strings.Split(name, "/")
	if len(segments) > 2 {
		return field.ErrorList{unknown}
	}
	var errs field.ErrorList
	for _, s := range segments {
		errs = append(errs, label(s, path)...)
	}
	if !names.has(name) {
		errs = append(errs, unknown)
	}
	return errs
}

// constraint checks what the devices of some requests must have in common.
func constraint(k *resourcev1.DeviceConstraint, names requested, path *field.Path) field.ErrorList {
	errs := references(k.Requests, names, path)
	if k.MatchAttribute == nil && k.DistinctAttribute == nil {
		return append(errs, field.Required(path, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
	}
	for _, attribute := range []struct {
		name  string
		value *resourcev1.FullyQualifiedName
	}{{"matchAttribute", k.MatchAttribute}, {"distinctAttribute", k.DistinctAttribute}} {
		if attribute.value != nil {
			errs = append(errs, declared(string(*attribute.value), path.Child(attribute.name), validate.ResourceFullyQualifiedName)...)
		}
	}
	return errs
}

func request(r *resourcev1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := label(r.Name, path.Child("name"))
	switch {
	case r.Exactly == nil && len(r.FirstAvailable) == 0:
		return append(errs, field.Required(path, "exactly one of `exactly` or `firstAvailable` is required"))
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		errs = append(errs, field.Invalid(path, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
		return append(errs, both(r, path)...)
	case r.Exactly != nil:
		e, at := r.Exactly, path.Child("exactly")
		if at := at.Child("deviceClassName"); e.DeviceClassName == "" {
			errs = append(errs, field.Required(at, ""))
		} else { // Kubernetes declares the rule only for alternatives.
			errs = append(errs, invalid(e.DeviceClassName, validation.IsDNS1123Subdomain(e.DeviceClassName), at)...)
		}
		return append(errs, demand(e.Selectors, e.AllocationMode, e.Count, e.Tolerations, at)...)
	}
	return append(errs, set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, path.Child("firstAvailable"),
		func(s *resourcev1.DeviceSubRequest) string { return s.Name },
		func(s *resourcev1.DeviceSubRequest, path *field.Path) field.ErrorList {
			errs := label(s.Name, path.Child("name"))
			errs = append(errs, required(s.DeviceClassName, path.Child("deviceClassName"), validate.LongName)...)
			return append(errs, demand(s.Selectors, s.AllocationMode, s.Count, s.Tolerations, path)...)
		})...)
}

// both makes the declared checks of a request that is exact and has alternatives as well; Kubernetes skips
// the others.
func both(r *resourcev1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := demandDeclared(r.Exactly.Selectors, r.Exactly.AllocationMode, r.Exactly.Tolerations, path.Child("exactly"))
	return append(errs, set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, path.Child("firstAvailable"),
		func(s *resourcev1.DeviceSubRequest) string { return s.Name },
		func(s *resourcev1.DeviceSubRequest, path *field.Path) field.ErrorList {
			errs := required(s.DeviceClassName, path.Child("deviceClassName"), validate.LongName)
			return append(errs, demandDeclared(s.Selectors, s.AllocationMode, s.Tolerations, path)...)
		})...)
}

// demandDeclared makes the declared checks of what requests and their alternatives share.
func demandDeclared(selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, tolerations []resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if n := len(selectors); n > resourcev1.DeviceSelectorsMaxSize {
		errs = append(errs, field.TooMany(path.Child("selectors"), n, resourcev1.DeviceSelectorsMaxSize))
	}
	errs = append(errs, allocationMode(mode, path)...)
	return append(errs, each(tolerations, -1, path.Child("tolerations"), tolerationDeclared)...)
}

func allocationMode(mode resourcev1.DeviceAllocationMode, path *field.Path) field.ErrorList {
	return known(mode, path.Child("allocationMode"), resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)
}

// demand checks what requests and their alternatives share.
func demand(selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, count int64, tolerations []resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	errs := each(selectors, resourcev1.DeviceSelectorsMaxSize, path.Child("selectors"),
		func(s *resourcev1.DeviceSelector, path *field.Path) field.ErrorList { return selector(s, false, path) })
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
		errs = append(errs, allocationMode(mode, path)...)
	}
	return append(errs, each(tolerations, -1, path.Child("tolerations"), toleration)...)
}

func toleration(t *resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, invalid(t.Value, validation.IsValidLabelValue(t.Value), path.Child("value"))...)
	}
	return append(errs, tolerationDeclared(t, path)...)
}

// tolerationDeclared makes the declared checks of a toleration.
func tolerationDeclared(t *resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = declared(t.Key, path.Child("key"), validate.LabelKey)
	}
	if t.Operator == "" {
		errs = append(errs, field.Required(path.Child("operator"), ""))
	} else {
		errs = append(errs, known(t.Operator, path.Child("operator"), resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)...)
	}
	if t.Effect != "" {
		errs = append(errs, effect(t.Effect, path.Child("effect"))...)
	}
	return errs
}

// shared checks the identifier of a share of a device.
func shared(id string, path *field.Path) field.ErrorList { return declared(id, path, validate.UUID) }

// atMost returns the declared rule that a value has at most n bytes.
func atMost(n int) rule {
	return func(ctx context.Context, op operation.Operation, path *field.Path, value, old *string) field.ErrorList {
		return validate.MaxBytes(ctx, op, path, value, old, n)
	}
}

// skipped checks which calls to a driver a node may skip.
func skipped(operations []resourcev1.SkipNodeOperation, path *field.Path) field.ErrorList {
	const prepare, unprepare, all = resourcev1.SkipNodeOperationNodePrepareResources, resourcev1.SkipNodeOperationNodeUnprepareResources, resourcev1.SkipNodeOperationAll
	errs := set(operations, -1, path, func(o *resourcev1.SkipNodeOperation) resourcev1.SkipNodeOperation { return *o },
		func(o *resourcev1.SkipNodeOperation, path *field.Path) field.ErrorList {
			return known(*o, path, all, prepare, unprepare)
		})
	if slices.Contains(operations, prepare) && !slices.Contains(operations, unprepare) && !slices.Contains(operations, all) {
		errs = append(errs, field.Invalid(path, operations, "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"))
	}
	return errs
}
