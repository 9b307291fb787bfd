package storage

import (
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/volume"
)

// validateStorageCapacity validates the capacity that a driver reports.
func validateStorageCapacity(c *storagev1.CSIStorageCapacity) field.ErrorList {
	return storageCapacity(c, false)
}

func storageCapacity(c *storagev1.CSIStorageCapacity, anyValue bool) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	options := metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: anyValue}
	errs = append(errs, metav1validation.ValidateLabelSelector(c.NodeTopology, options, field.NewPath("nodeTopology"))...)
	errs = append(errs, volume.Subdomain(c.StorageClassName, field.NewPath("storageClassName"))...)
	if c.Capacity != nil && c.Capacity.Cmp(resource.Quantity{}) < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(), apivalidation.IsNegativeErrorMsg))
	}
	return errs
}

// validateStorageCapacityUpdate validates an update of a capacity. A topology whose values are malformed
// already may stay so.
func validateStorageCapacityUpdate(c, old *storagev1.CSIStorageCapacity) field.ErrorList {
	malformed := len(metav1validation.ValidateLabelSelector(old.NodeTopology, metav1validation.LabelSelectorValidationOptions{}, nil)) > 0
	errs := append(storageCapacity(c, malformed), apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	if !apiequality.Semantic.DeepEqual(c.NodeTopology, old.NodeTopology) {
		errs = append(errs, field.Invalid(field.NewPath("nodeTopology"), c.NodeTopology, apivalidation.FieldImmutableErrorMsg))
	}
	if c.StorageClassName != old.StorageClassName {
		errs = append(errs, field.Invalid(field.NewPath("storageClassName"), c.StorageClassName, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}
