package storage

import (
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateDriver validates a CSI driver.
func validateDriver(d *storagev1.CSIDriver) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&d.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	s, at := &d.Spec, field.NewPath("spec")
	errs = append(errs, chosen(s.AttachRequired, at.Child("attachedRequired"))...) // Kubernetes uses this field name.
	errs = append(errs, chosen(s.PodInfoOnMount, at.Child("podInfoOnMount"))...)
	errs = append(errs, chosen(s.StorageCapacity, at.Child("storageCapacity"))...)
	policies := []storagev1.FSGroupPolicy{storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy}
	if s.FSGroupPolicy != nil && !slices.Contains(policies, *s.FSGroupPolicy) {
		errs = append(errs, field.NotSupported(at.Child("fsGroupPolicy"), *s.FSGroupPolicy, policies))
	}
	errs = append(errs, tokenRequests(s.TokenRequests, at.Child("tokenRequests"))...)
	modes := []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral}
	for _, mode := range s.VolumeLifecycleModes {
		if !slices.Contains(modes, mode) {
			errs = append(errs, field.NotSupported(at.Child("volumeLifecycleModes"), mode, modes))
		}
	}
	errs = append(errs, chosen(s.SELinuxMount, at.Child("seLinuxMount"))...)
	if period := s.NodeAllocatableUpdatePeriodSeconds; period != nil && *period < minUpdatePeriod {
		errs = append(errs, field.Invalid(at.Child("nodeAllocatableUpdatePeriodSeconds"), *period, "must be greater than or equal to 10 seconds"))
	}
	if s.ServiceAccountTokenInSecrets != nil && len(s.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(at.Child("serviceAccountTokenInSecrets"), s.ServiceAccountTokenInSecrets,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return append(errs, chosen(s.PreventPodSchedulingIfMissing, at.Child("preventPodSchedulingIfMissing"))...)
}

// chosen requires a value, which defaulting sets.
func chosen(value *bool, at *field.Path) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

func tokenRequests(requests []storagev1.TokenRequest, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, request := range requests {
		before := requests[:i]
		if slices.ContainsFunc(before, func(other storagev1.TokenRequest) bool { return other.Audience == request.Audience }) {
			errs = append(errs, field.Duplicate(at.Index(i).Child("audience"), request.Audience))
			continue
		}
		seconds, at := request.ExpirationSeconds, at.Index(i).Child("expirationSeconds")
		if seconds != nil && *seconds < minTokenSeconds {
			errs = append(errs, field.Invalid(at, *seconds, "may not specify a duration less than 10 minutes"))
		}
		if seconds != nil && *seconds > maxTokenSeconds {
			errs = append(errs, field.Invalid(at, *seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}

// validateDriverUpdate validates an update of a CSI driver.
func validateDriverUpdate(d, old *storagev1.CSIDriver) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&d.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), validateDriver(d)...)
	at := field.NewPath("spec")
	errs = append(errs, apivalidation.ValidateImmutableField(d.Spec.AttachRequired, old.Spec.AttachRequired, at.Child("attachedRequired"))...)
	return append(errs, apivalidation.ValidateImmutableField(d.Spec.VolumeLifecycleModes, old.Spec.VolumeLifecycleModes, at.Child("volumeLifecycleModes"))...)
}
