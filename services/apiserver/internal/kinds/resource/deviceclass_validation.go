package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateClass validates a class of devices.
func validateClass(c *resourcev1.DeviceClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec")
	errs = append(errs, each(c.Spec.Selectors, resourcev1.DeviceSelectorsMaxSize, path.Child("selectors"), selector)...)
	return append(errs, each(c.Spec.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"),
		func(k *resourcev1.DeviceClassConfiguration, path *field.Path) field.ErrorList {
			return configuration(&k.DeviceConfiguration, path)
		})...)
}
