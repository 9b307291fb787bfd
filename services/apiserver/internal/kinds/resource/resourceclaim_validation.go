package resource

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/scheduling"
)

// validateClaim validates a claim for devices.
func validateClaim(c *resourcev1.ResourceClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, claim(&c.Spec.Devices, field.NewPath("spec", "devices"))...)
	return append(errs, extentOfClaim(&c.Spec.Devices, field.NewPath("spec", "devices", "requests"))...)
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
	has := allocated(s.Allocation)
	errs = append(errs, set(s.Devices, -1, path.Child("devices"), statusID,
		func(d *resourcev1.AllocatedDeviceStatus, path *field.Path) field.ErrorList {
			return deviceStatus(d, has, path)
		})...)
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
	return append(errs, allocation(s.Allocation, requestNames(&c.Spec.Devices), path)...)
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

// allocation checks a new allocation of devices to requests with the given names.
func allocation(a *resourcev1.AllocationResult, names requested, path *field.Path) field.ErrorList {
	at := path.Child("devices")
	errs := each(a.Devices.Results, resourcev1.AllocationResultsMaxSize, at.Child("results"),
		func(r *resourcev1.DeviceRequestAllocationResult, path *field.Path) field.ErrorList {
			return result(r, names, path)
		})
	errs = append(errs, each(a.Devices.Config, 2*resourcev1.DeviceConfigMaxSize, at.Child("config"), // of the claim and of the class
		func(k *resourcev1.DeviceAllocationConfiguration, path *field.Path) field.ErrorList {
			errs := required(string(k.Source), path.Child("source"))
			if k.Source != "" {
				errs = known(k.Source, path.Child("source"), resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass)
			}
			errs = append(errs, references(k.Requests, names, path)...)
			return append(errs, configuration(&k.DeviceConfiguration, false, path)...)
		})...)
	if a.NodeSelector != nil {
		errs = append(errs, scheduling.NodeSelector(a.NodeSelector, path.Child("nodeSelector"))...)
	}
	return errs
}

// result checks a device that is allocated to a request.
func result(r *resourcev1.DeviceRequestAllocationResult, names requested, path *field.Path) field.ErrorList {
	errs := reference(r.Request, names, path.Child("request"))
	errs = append(errs, chosenDriver(r.Driver, path.Child("driver"))...)
	errs = append(errs, required(r.Pool, path.Child("pool"), validate.ResourcePoolName)...)
	errs = append(errs, label(r.Device, path.Child("device"))...)
	errs = append(errs, bindings(r.BindingConditions, r.BindingFailureConditions, path)...)
	errs = append(errs, each(r.Tolerations, -1, path.Child("tolerations"), toleration)...)
	if r.ShareID != nil {
		errs = append(errs, shared(string(*r.ShareID), path.Child("shareID"))...)
	}
	return append(errs, skipped(r.SkipNodeOperations, path.Child("skipNodeOperations"))...)
}
