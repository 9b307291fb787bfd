package resource

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/scheduling"
)

// device checks a device of a list; old is the one before an update, nil if it is new. perDevice says that
// each device of the list says from which nodes it is reachable.
func device(d, old *resourcev1.Device, perDevice bool, path *field.Path) field.ErrorList {
	errs := label(d.Name, path.Child("name"))
	if n := len(d.Attributes) + len(d.Capacity); n > resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice)))
	}
	if n := attributeValues(d); n > resourcev1.ResourceSliceMaxAttributeValuesPerDevice {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attribute values must not exceed %d", resourcev1.ResourceSliceMaxAttributeValuesPerDevice)))
	}
	at := path.Child("attributes")
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		errs = append(errs, qualifiedName(string(name), at)...)
		errs = append(errs, attribute(d.Attributes[name], at.Key(shown(string(name))))...)
	}
	if old == nil || !apiequality.Semantic.DeepEqual(old.Capacity, d.Capacity) {
		errs = append(errs, capacities(d, path.Child("capacity"))...)
	}
	if old == nil || !apiequality.Semantic.DeepEqual(old.Taints, d.Taints) {
		errs = append(errs, each(d.Taints, resourcev1.DeviceTaintsMaxLength, path.Child("taints"),
			func(t *resourcev1.DeviceTaint, path *field.Path) field.ErrorList { return taint(t, "", path) })...)
	}
	errs = append(errs, set(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, path.Child("consumesCounters"),
		func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet },
		func(c *resourcev1.DeviceCounterConsumption, path *field.Path) field.ErrorList {
			return counters(c.CounterSet, path.Child("counterSet"), c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, path.Child("counters"))
		})...)
	errs = append(errs, deviceNodes(d, perDevice, path)...)
	return append(errs, bindings(d.BindingConditions, d.BindingFailureConditions, path)...)
}

// attributeValues counts the values of a device's attributes, of which some have several.
func attributeValues(d *resourcev1.Device) int {
	count := 0
	for _, a := range d.Attributes {
		count += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	return count
}

// hasLists reports whether a device has attributes with several values.
func hasLists(d *resourcev1.Device) bool {
	for _, a := range d.Attributes {
		if a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil {
			return true
		}
	}
	return false
}

// qualifiedName checks a name that may begin with a domain and a slash.
func qualifiedName(name string, path *field.Path) field.ErrorList {
	parts := strings.Split(name, "/")
	switch len(parts) {
	case 1:
		return identifier(name, path)
	case 2:
	default:
		return nil // Kubernetes does not look at more than one slash.
	}
	var errs field.ErrorList
	if parts[0] == "" {
		errs = append(errs, field.Invalid(path, "", "the domain must not be empty"))
	} else {
		errs = append(errs, driver(parts[0], path)...)
	}
	if parts[1] == "" {
		return append(errs, field.Invalid(path, "", "the name must not be empty"))
	}
	return append(errs, identifier(parts[1], path)...)
}

// shown returns a name that fits into the path of an error: the middle of a long one is left out.
func shown(name string) string {
	const most, dots = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength, "..."
	if len(name) <= most {
		return name
	}
	rest := most - len(dots)
	return name[:(rest+1)/2] + dots + name[len(name)-rest/2:]
}

func identifier(id string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, invalid(id, content.IsCIdentifier(id), path)...)
}

// attribute checks an attribute, which has exactly one value or list of values.
func attribute(a resourcev1.DeviceAttribute, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	given := 0
	for _, v := range []struct {
		name string
		set  bool
	}{
		{"int", a.IntValue != nil}, {"bool", a.BoolValue != nil}, {"string", a.StringValue != nil}, {"version", a.VersionValue != nil},
		{"ints", a.IntValues != nil}, {"bools", a.BoolValues != nil}, {"strings", a.StringValues != nil}, {"versions", a.VersionValues != nil},
	} {
		if v.set {
			given++
		}
	}
	if a.StringValue != nil {
		errs = append(errs, declared(*a.StringValue, path.Child("string"), atMost(resourcev1.DeviceAttributeMaxValueLength))...)
	}
	if a.VersionValue != nil {
		errs = append(errs, version(*a.VersionValue, path.Child("version"))...)
	}
	for i, value := range a.StringValues {
		errs = append(errs, declared(value, path.Child("strings").Index(i), atMost(resourcev1.DeviceAttributeMaxValueLength))...)
	}
	for i, value := range a.VersionValues {
		errs = append(errs, version(value, path.Child("versions").Index(i))...)
	}
	const all = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
	switch given {
	case 0:
		errs = append(errs, field.Invalid(path, "", "must specify one of: "+all))
	case 1:
	default:
		errs = append(errs, field.Invalid(path, "", "must specify exactly one of: "+all))
	}
	return errs
}

// version checks a version in the form of https://semver.org/spec/v2.0.0.html.
func version(value string, path *field.Path) field.ErrorList {
	semantic := regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
		`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
		`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)
	var errs field.ErrorList
	if !semantic.MatchString(value) {
		errs = append(errs, field.Invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"))
	}
	return append(errs, declared(value, path, atMost(resourcev1.DeviceAttributeMaxValueLength))...)
}

// counters checks a set of counters and its name.
func counters(name string, at *field.Path, all map[string]resourcev1.Counter, most int, path *field.Path) field.ErrorList {
	errs := required(name, at, validate.ShortName)
	switch {
	case len(all) == 0:
		return append(errs, field.Required(path, ""))
	case len(all) > most:
		return append(errs, field.TooMany(path, len(all), most))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		errs = append(errs, declared(name, path, validate.ShortName)...)
	}
	return errs
}

// deviceNodes checks from which nodes a device is reachable, which exactly one field says if perDevice is
// set, and none otherwise.
func deviceNodes(d *resourcev1.Device, perDevice bool, path *field.Path) field.ErrorList {
	if !perDevice {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			return field.ErrorList{field.Invalid(path, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")}
		}
		return nil
	}
	errs := nodeName(d.NodeName, "must not be empty", path.Child("nodeName"))
	if d.NodeSelector != nil {
		errs = append(errs, scheduling.NodeSelector(d.NodeSelector, path.Child("nodeSelector"))...)
	}
	errs = append(errs, onlyTrue(d.AllNodes, path.Child("allNodes"))...)
	return append(errs, onePlace([]place{
		{"nodeName", d.NodeName != nil && *d.NodeName != ""}, {"nodeSelector", d.NodeSelector != nil}, {"allNodes", d.AllNodes != nil && *d.AllNodes},
	}, "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec", "", path)...)
}
