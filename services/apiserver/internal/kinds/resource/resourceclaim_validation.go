package resource

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateClaim validates a claim for devices.
func validateClaim(c *resourcev1.ResourceClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, claim(&c.Spec.Devices, field.NewPath("spec", "devices"))...)
}

// validateClaimUpdate validates an update of a claim, whose spec is immutable.
func validateClaimUpdate(c, old *resourcev1.ResourceClaim) field.ErrorList {
	return apivalidation.ValidateImmutableField(c.Spec, old.Spec, field.NewPath("spec"))
}

// validateClaimStatus validates an update of a claim's status: allocated devices stay until they are
// released.
func validateClaimStatus(c, old *resourcev1.ResourceClaim) field.ErrorList {
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
