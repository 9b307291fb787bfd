package resource

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
)

// withoutDerived drops the attributes that expressions derive, a feature that is disabled by default, unless
// the old claim has some.
func withoutDerived(c, old *resourcev1.DeviceClaim) {
	if old != nil && slices.ContainsFunc(old.Requests, func(r resourcev1.DeviceRequest) bool {
		return r.Exactly != nil && len(r.Exactly.DerivedAttributes) > 0 ||
			slices.ContainsFunc(r.FirstAvailable, func(s resourcev1.DeviceSubRequest) bool { return len(s.DerivedAttributes) > 0 })
	}) {
		return
	}
	for i := range c.Requests {
		if c.Requests[i].Exactly != nil {
			c.Requests[i].Exactly.DerivedAttributes = nil
		}
		for j := range c.Requests[i].FirstAvailable {
			c.Requests[i].FirstAvailable[j].DerivedAttributes = nil
		}
	}
}

// withoutSkipped drops from an allocation the calls to drivers that nodes skip, a feature that is disabled by
// default, unless the old one has some. Both may be nil.
func withoutSkipped(a, old *resourcev1.AllocationResult) {
	if a == nil || old != nil && slices.ContainsFunc(old.Devices.Results, func(r resourcev1.DeviceRequestAllocationResult) bool {
		return len(r.SkipNodeOperations) > 0
	}) {
		return
	}
	for i := range a.Devices.Results {
		a.Devices.Results[i].SkipNodeOperations = nil
	}
}

// deviceFeature is a feature of devices that is disabled by default.
type deviceFeature struct {
	used func(*resourcev1.Device) bool
	drop func(*resourcev1.Device)
}

// deviceFeatures returns the disabled features: groups of devices that share counters, resources of nodes in
// devices, and attributes with several values.
func deviceFeatures() []deviceFeature {
	return []deviceFeature{
		{
			func(d *resourcev1.Device) bool {
				return slices.ContainsFunc(d.ConsumesCounters, func(c resourcev1.DeviceCounterConsumption) bool { return len(c.CompatibilityGroups) > 0 })
			},
			func(d *resourcev1.Device) {
				for i := range d.ConsumesCounters {
					d.ConsumesCounters[i].CompatibilityGroups = nil
				}
			},
		},
		{
			func(d *resourcev1.Device) bool { return len(d.NodeAllocatableResources) > 0 },
			func(d *resourcev1.Device) { d.NodeAllocatableResources = nil },
		},
		{
			func(d *resourcev1.Device) bool {
				for _, a := range d.Attributes {
					if a.IntValues != nil || a.BoolValues != nil || a.StringValues != nil || a.VersionValues != nil {
						return true
					}
				}
				return false
			},
			func(d *resourcev1.Device) {
				for name, a := range d.Attributes {
					a.IntValues, a.BoolValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
					d.Attributes[name] = a
				}
			},
		},
	}
}

// withoutDisabled drops from a driver's list of devices the features that are disabled by default, unless the
// old list has them; it is nil at creation.
func withoutDisabled(spec, old *resourcev1.ResourceSliceSpec) {
	if old == nil {
		old = &resourcev1.ResourceSliceSpec{}
	}
	if old.PartitionTypeAttribute == nil {
		spec.PartitionTypeAttribute = nil
	}
	if len(old.SkipNodeOperations) == 0 {
		spec.SkipNodeOperations = nil
	}
	for _, feature := range deviceFeatures() {
		if slices.ContainsFunc(old.Devices, func(d resourcev1.Device) bool { return feature.used(&d) }) {
			continue
		}
		for i := range spec.Devices {
			feature.drop(&spec.Devices[i])
		}
	}
}
