package devices

import (
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Claim validates a claim for devices.
func Claim(c *resourcev1.ResourceClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, claim(&c.Spec.Devices, field.NewPath("spec", "devices"))...)
}

// ClaimUpdate validates an update of a claim, whose spec is immutable.
func ClaimUpdate(c, old *resourcev1.ResourceClaim) field.ErrorList {
	return apivalidation.ValidateImmutableField(c.Spec, old.Spec, field.NewPath("spec"))
}

// ClaimTemplate validates a template of claims.
func ClaimTemplate(t *resourcev1.ResourceClaimTemplate) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&t.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec", "metadata")
	errs = append(errs, apivalidation.ValidateAnnotations(t.Spec.Annotations, path.Child("annotations"))...)
	errs = append(errs, metav1validation.ValidateLabels(t.Spec.Labels, path.Child("labels"))...)
	return append(errs, claim(&t.Spec.Spec.Devices, field.NewPath("spec", "spec", "devices"))...)
}

// ClaimTemplateUpdate validates an update of a template, whose spec is immutable.
func ClaimTemplateUpdate(t, old *resourcev1.ResourceClaimTemplate) field.ErrorList {
	return apivalidation.ValidateImmutableField(t.Spec, old.Spec, field.NewPath("spec"))
}

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

// ClaimStatus validates an update of a claim's status: allocated devices stay until they are
// released.
func ClaimStatus(c, old *resourcev1.ResourceClaim) field.ErrorList {
	path, s := field.NewPath("status"), &c.Status
	reserved := path.Child("reservedFor")
	errs := set(s.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, reserved,
		func(r *resourcev1.ResourceClaimConsumerReference) types.UID { return r.UID }, consumer)
	if len(s.ReservedFor) > 0 {
		added := func(r resourcev1.ResourceClaimConsumerReference) bool {
			return !slices.Contains(old.Status.ReservedFor, r)
		}
		if s.Allocation == nil {
			errs = append(errs, field.Forbidden(reserved, "may not be specified when `allocated` is not set"))
		} else if c.DeletionTimestamp != nil && slices.ContainsFunc(s.ReservedFor, added) {
			errs = append(errs, field.Forbidden(reserved, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
		}
	}
	if s.Allocation == nil {
		return errs
	}
	path = path.Child("allocation")
	if old.Status.Allocation != nil {
		return append(errs, apivalidation.ValidateImmutableField(s.Allocation, old.Status.Allocation, path)...)
	}
	names := requestNames(&c.Spec.Devices)
	return append(errs, each(s.Allocation.Devices.Results, resourcev1.AllocationResultsMaxSize, path.Child("devices", "results"),
		func(r *resourcev1.DeviceRequestAllocationResult, path *field.Path) field.ErrorList {
			errs := reference(r.Request, names, path.Child("request"))
			errs = append(errs, driver(r.Driver, path.Child("driver"))...)
			errs = append(errs, pool(r.Pool, path.Child("pool"))...)
			return append(errs, label(r.Device, path.Child("device"))...)
		})...)
}

func consumer(r *resourcev1.ResourceClaimConsumerReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct{ name, value string }{{"resource", r.Resource}, {"name", r.Name}, {"uid", string(r.UID)}} {
		if f.value == "" {
			errs = append(errs, field.Required(path.Child(f.name), ""))
		}
	}
	return errs
}
