package resource

import (
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/scheduling"
)

// validateSlice validates a driver's list of devices.
func validateSlice(s *resourcev1.ResourceSlice) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path, spec := field.NewPath("spec"), &s.Spec
	errs = append(errs, driver(spec.Driver, path.Child("driver"))...)
	errs = append(errs, pool(spec.Pool.Name, path.Child("pool", "name"))...)
	if spec.Pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(path.Child("pool", "resourceSliceCount"), spec.Pool.ResourceSliceCount, "must be greater than zero"))
	}
	if spec.Pool.Generation < 0 {
		errs = append(errs, field.Invalid(path.Child("pool", "generation"), spec.Pool.Generation, "must be greater than or equal to zero"))
	}
	errs = append(errs, sliceNodes(spec, path)...)
	if spec.SharedCounters != nil && spec.Devices != nil {
		errs = append(errs, field.Invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	return append(errs, set(spec.Devices, resourcev1.ResourceSliceMaxDevices, path.Child("devices"),
		func(d *resourcev1.Device) string { return d.Name },
		func(d *resourcev1.Device, path *field.Path) field.ErrorList {
			return append(label(d.Name, path.Child("name")), each(d.Taints, resourcev1.DeviceTaintsMaxLength, path.Child("taints"), taint)...)
		})...)
}

// sliceNodes checks that exactly one field says from which nodes the devices are reachable.
func sliceNodes(spec *resourcev1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var given []string
	if spec.NodeName != nil {
		if *spec.NodeName == "" {
			errs = append(errs, field.Invalid(path.Child("nodeName"), "", "must be either unset or set to a non-empty string"))
		} else {
			given = append(given, "`nodeName`")
			errs = append(errs, invalid(*spec.NodeName, apivalidation.NameIsDNSSubdomain(*spec.NodeName, false), path.Child("nodeName"))...)
		}
	}
	if spec.NodeSelector != nil {
		given = append(given, "`nodeSelector`")
		at := path.Child("nodeSelector")
		errs = append(errs, scheduling.NodeSelector(spec.NodeSelector, at)...)
		if terms := spec.NodeSelector.NodeSelectorTerms; len(terms) != 1 {
			errs = append(errs, field.Invalid(at.Child("nodeSelectorTerms"), terms, "must have exactly one node selector term"))
		}
	}
	for _, flag := range []struct {
		name  string
		value *bool
	}{{"allNodes", spec.AllNodes}, {"perDeviceNodeSelection", spec.PerDeviceNodeSelection}} {
		switch {
		case flag.value == nil:
		case *flag.value:
			given = append(given, "`"+flag.name+"`")
		default:
			errs = append(errs, field.Invalid(path.Child(flag.name), false, "must be either unset or set to true"))
		}
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch len(given) {
	case 0:
		return append(errs, field.Required(path, one))
	case 1:
		return errs
	}
	return append(errs, field.Invalid(path, "{"+strings.Join(given, ", ")+"}", one+", but multiple fields are set"))
}

// validateSliceUpdate validates an update of a driver's list of devices: the pool, the driver and the node
// are immutable.
func validateSliceUpdate(s, old *resourcev1.ResourceSlice) field.ErrorList {
	path := field.NewPath("spec")
	errs := validateSlice(s)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.Pool.Name, old.Spec.Pool.Name, path.Child("pool", "name"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.Driver, old.Spec.Driver, path.Child("driver"))...)
	return append(errs, apivalidation.ValidateImmutableField(s.Spec.NodeName, old.Spec.NodeName, path.Child("nodeName"))...)
}
