package storage

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateStorageClass validates a storage class.
func validateStorageClass(c *storagev1.StorageClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, provisioner(c.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, parameters(c.Parameters, field.NewPath("parameters"))...)
	if policy := c.ReclaimPolicy; policy != nil && *policy != "" && *policy != corev1.PersistentVolumeReclaimDelete && *policy != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimPolicy"), *policy,
			[]corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}))
	}
	path := field.NewPath("volumeBindingMode")
	if mode := c.VolumeBindingMode; mode == nil {
		errs = append(errs, field.Required(path, ""))
	} else if *mode != storagev1.VolumeBindingImmediate && *mode != storagev1.VolumeBindingWaitForFirstConsumer {
		errs = append(errs, field.NotSupported(path, *mode,
			[]storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}))
	}
	return append(errs, topologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func topologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen []map[string][]string
	for i, term := range terms {
		expressions, at := map[string][]string{}, path.Index(i).Child("matchLabelExpressions")
		for j, r := range term.MatchLabelExpressions {
			errs = append(errs, metav1validation.ValidateLabelName(r.Key, at.Index(j).Child("key"))...)
			if _, twice := expressions[r.Key]; twice {
				errs = append(errs, field.Duplicate(at.Index(j).Child("key"), r.Key))
			}
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(at.Index(j).Child("values"), ""))
			}
			for k, value := range r.Values {
				if slices.Contains(r.Values[:k], value) {
					errs = append(errs, field.Duplicate(at.Index(j).Child("values").Index(k), value))
				}
			}
			expressions[r.Key] = slices.Sorted(slices.Values(r.Values))
		}
		// Kubernetes rejects an empty term as a duplicate, even if it is the only one.
		if len(expressions) == 0 || slices.ContainsFunc(seen, func(other map[string][]string) bool { return maps.EqualFunc(other, expressions, slices.Equal) }) {
			errs = append(errs, field.Duplicate(at, ""))
		}
		seen = append(seen, expressions)
	}
	return errs
}

// validateStorageClassUpdate validates an update of a storage class.
func validateStorageClassUpdate(c, old *storagev1.StorageClass) field.ErrorList {
	errs := append(validateStorageClass(c), apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.Parameters, old.Parameters, field.NewPath("parameters"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	return append(errs, apivalidation.ValidateImmutableField(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}
