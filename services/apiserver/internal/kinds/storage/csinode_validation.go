package storage

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volumesource"
)

// validateNode validates a node's CSI drivers.
func validateNode(n *storagev1.CSINode) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&n.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	seen := map[string]bool{}
	for i, driver := range n.Spec.Drivers {
		at := field.NewPath("spec", "drivers").Index(i)
		errs = append(errs, volumesource.DriverName(driver.Name, at.Child("name"))...)
		errs = append(errs, volumesource.Required(driver.NodeID, at.Child("nodeID"))...)
		if len(driver.NodeID) > maxNodeID {
			errs = append(errs, field.Invalid(at.Child("nodeID"), driver.NodeID, fmt.Sprintf("must be %d characters or less", maxNodeID)))
		}
		if a := driver.Allocatable; a != nil && a.Count != nil && *a.Count < 0 {
			errs = append(errs, field.Invalid(at.Child("allocatable", "count"), int64(*a.Count), apivalidation.IsNegativeErrorMsg).WithOrigin("minimum"))
		}
		if seen[driver.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), driver.Name))
		}
		seen[driver.Name] = true
		errs = append(errs, topologyKeys(driver.TopologyKeys, at)...)
	}
	return errs
}

func topologyKeys(keys []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, key := range keys {
		errs = append(errs, volumesource.Required(key, at)...)
		if slices.Contains(keys[:i], key) {
			errs = append(errs, field.Duplicate(at, key))
		}
		for _, msg := range validation.IsQualifiedName(key) {
			errs = append(errs, field.Invalid(at, key, msg))
		}
	}
	return errs
}

// validateNodeUpdate validates an update of a node's CSI drivers. Drivers may be added and removed; of an
// existing one only the number of volumes may change.
func validateNodeUpdate(n, old *storagev1.CSINode) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&n.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), validateNode(n)...)
	for _, was := range old.Spec.Drivers {
		for _, now := range n.Spec.Drivers {
			if now.Name == was.Name {
				now, was := now.DeepCopy(), was.DeepCopy()
				now.Allocatable, was.Allocatable = nil, nil
				errs = append(errs, apivalidation.ValidateImmutableField(now, was, field.NewPath("spec", "drivers"))...)
			}
		}
	}
	return errs
}
