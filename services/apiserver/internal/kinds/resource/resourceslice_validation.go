package resource

import (
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/scheduling"
)

// validateSlice validates a new list of a driver's devices.
func validateSlice(s *resourcev1.ResourceSlice) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, sliceSpec(&s.Spec, nil, field.NewPath("spec"))...)
}

// validateSliceUpdate validates an update of a driver's list of devices: the pool, the driver and the node
// are immutable.
func validateSliceUpdate(s, old *resourcev1.ResourceSlice) field.ErrorList {
	path := field.NewPath("spec")
	errs := sliceSpec(&s.Spec, &old.Spec, path)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.Pool.Name, old.Spec.Pool.Name, path.Child("pool", "name"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.Driver, old.Spec.Driver, path.Child("driver"))...)
	return append(errs, apivalidation.ValidateImmutableField(s.Spec.NodeName, old.Spec.NodeName, path.Child("nodeName"))...)
}

// sliceSpec checks a driver's list of devices; old is nil at creation.
func sliceSpec(spec, old *resourcev1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	errs := driver(spec.Driver, path.Child("driver"))
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
	perDevice := spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection
	errs = append(errs, set(spec.Devices, maxDevices(spec), path.Child("devices"), func(d *resourcev1.Device) string { return d.Name },
		func(d *resourcev1.Device, path *field.Path) field.ErrorList {
			return device(d, namesake(d, old), perDevice, path)
		})...)
	errs = append(errs, set(spec.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, path.Child("sharedCounters"),
		func(s *resourcev1.CounterSet) string { return s.Name },
		func(s *resourcev1.CounterSet, path *field.Path) field.ErrorList {
			return counters(s.Name, path.Child("name"), s.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, path.Child("counters"))
		})...)
	return append(errs, skipped(spec.SkipNodeOperations, path.Child("skipNodeOperations"))...)
}

// maxDevices returns how many devices a list may have: fewer if some use features that take more space.
func maxDevices(spec *resourcev1.ResourceSliceSpec) int {
	if slices.ContainsFunc(spec.Devices, func(d resourcev1.Device) bool {
		return len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 || hasLists(&d)
	}) {
		return resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	return resourcev1.ResourceSliceMaxDevices
}

// namesake returns the device of the same name before an update, if there is one.
func namesake(d *resourcev1.Device, old *resourcev1.ResourceSliceSpec) *resourcev1.Device {
	if old == nil {
		return nil
	}
	i := slices.IndexFunc(old.Devices, func(o resourcev1.Device) bool { return o.Name == d.Name })
	if i < 0 {
		return nil
	}
	return &old.Devices[i]
}

// place is one of the fields of which exactly one says from which nodes devices are reachable.
type place struct {
	name string
	set  bool
}

// onePlace checks that exactly one place is set; text says so, and many is what it adds if several are.
func onePlace(places []place, text, many string, path *field.Path) field.ErrorList {
	var given []string
	for _, p := range places {
		if p.set {
			given = append(given, "`"+p.name+"`")
		}
	}
	switch len(given) {
	case 0:
		return field.ErrorList{field.Required(path, text)}
	case 1:
		return nil
	}
	return field.ErrorList{field.Invalid(path, "{"+strings.Join(given, ", ")+"}", text+many)}
}

// sliceNodes checks that exactly one field says from which nodes the devices are reachable.
func sliceNodes(spec *resourcev1.ResourceSliceSpec, path *field.Path) field.ErrorList {
	errs := nodeName(spec.NodeName, "must be either unset or set to a non-empty string", path.Child("nodeName"))
	if spec.NodeSelector != nil {
		at := path.Child("nodeSelector")
		errs = append(errs, scheduling.NodeSelector(spec.NodeSelector, at)...)
		if terms := spec.NodeSelector.NodeSelectorTerms; len(terms) != 1 {
			errs = append(errs, field.Invalid(at.Child("nodeSelectorTerms"), terms, "must have exactly one node selector term"))
		}
	}
	errs = append(errs, onlyTrue(spec.AllNodes, path.Child("allNodes"))...)
	errs = append(errs, onlyTrue(spec.PerDeviceNodeSelection, path.Child("perDeviceNodeSelection"))...)
	return append(errs, onePlace([]place{
		{"nodeName", spec.NodeName != nil && *spec.NodeName != ""}, {"nodeSelector", spec.NodeSelector != nil},
		{"allNodes", spec.AllNodes != nil && *spec.AllNodes},
		{"perDeviceNodeSelection", spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection},
	}, "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required", ", but multiple fields are set", path)...)
}

// nodeName checks the name of a node, if there is one; empty is the error if it is empty.
func nodeName(name *string, empty string, path *field.Path) field.ErrorList {
	switch {
	case name == nil:
		return nil
	case *name == "":
		return field.ErrorList{field.Invalid(path, "", empty)}
	}
	return invalid(*name, apivalidation.NameIsDNSSubdomain(*name, false), path)
}

func onlyTrue(value *bool, path *field.Path) field.ErrorList {
	if value == nil || *value {
		return nil
	}
	return field.ErrorList{field.Invalid(path, false, "must be either unset or set to true")}
}
