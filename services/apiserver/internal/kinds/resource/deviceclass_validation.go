package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateClass validates a new class of devices.
func validateClass(c *resourcev1.DeviceClass) field.ErrorList {
	return validateClassUpdate(c, &resourcev1.DeviceClass{})
}

// validateClassUpdate validates an update of a class. Its selectors and its configuration may exceed newer
// limits as long as they do not change.
func validateClassUpdate(c, old *resourcev1.DeviceClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaWithOpts(&c.ObjectMeta, false,
		func(path *field.Path, name string) field.ErrorList { return declared(name, path, validate.LongName) }, field.NewPath("metadata"))
	path := field.NewPath("spec")
	selected := apiequality.Semantic.DeepEqual(c.Spec.Selectors, old.Spec.Selectors)
	errs = append(errs, each(c.Spec.Selectors, resourcev1.DeviceSelectorsMaxSize, path.Child("selectors"),
		func(s *resourcev1.DeviceSelector, path *field.Path) field.ErrorList {
			return selector(s, selected, path)
		})...)
	if !selected {
		errs = append(errs, extent(path.Child("selectors"), c.Spec.Selectors)...)
	}
	configured := apiequality.Semantic.DeepEqual(c.Spec.Config, old.Spec.Config)
	errs = append(errs, each(c.Spec.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"),
		func(k *resourcev1.DeviceClassConfiguration, path *field.Path) field.ErrorList {
			return configuration(&k.DeviceConfiguration, configured, path)
		})...)
	if name := c.Spec.ExtendedResourceName; name != nil {
		errs = append(errs, declared(*name, path.Child("extendedResourceName"), validate.ExtendedResourceName)...)
	}
	return errs
}
