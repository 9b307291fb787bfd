package core

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateConfigMap validates a ConfigMap.
func validateConfigMap(c *corev1.ConfigMap) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	size := 0
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		errs = append(errs, dataKey(key, "data")...)
		if _, ok := c.BinaryData[key]; ok {
			errs = append(errs, field.Invalid(field.NewPath("data").Key(key), key, "duplicate of key present in binaryData"))
		}
		size += len(c.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		errs = append(errs, dataKey(key, "binaryData")...)
		size += len(c.BinaryData[key])
	}
	if size > maxData {
		errs = append(errs, field.TooLong(field.NewPath(""), "", maxData))
	}
	return errs
}

// validateConfigMapUpdate validates an update of a ConfigMap.
func validateConfigMapUpdate(c, old *corev1.ConfigMap) field.ErrorList {
	var errs field.ErrorList
	if old.Immutable != nil && *old.Immutable {
		if c.Immutable == nil || !*c.Immutable {
			errs = append(errs, field.Forbidden(field.NewPath("immutable"), immutableSet))
		}
		if !apiequality.Semantic.DeepEqual(c.Data, old.Data) {
			errs = append(errs, field.Forbidden(field.NewPath("data"), immutableSet))
		}
		if !apiequality.Semantic.DeepEqual(c.BinaryData, old.BinaryData) {
			errs = append(errs, field.Forbidden(field.NewPath("binaryData"), immutableSet))
		}
	}
	return append(errs, validateConfigMap(c)...)
}
