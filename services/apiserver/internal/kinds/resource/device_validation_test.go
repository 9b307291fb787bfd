package resource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestDevice(t *testing.T) {
	const all = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`"
	attributes := func(name string, a resourcev1.DeviceAttribute) resourcev1.Device {
		return resourcev1.Device{Name: "d", Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{resourcev1.QualifiedName(name): a}}
	}
	one := resourcev1.DeviceAttribute{IntValue: new(int64(1))}
	many := map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{}
	for i := range 33 {
		many[resourcev1.QualifiedName("a"+strings.Repeat("x", i%31)+string(rune('a'+i%26)))] = one
	}
	for name, tc := range map[string]struct {
		device    resourcev1.Device
		perDevice bool
		want      []string
	}{
		"plain":         {resourcev1.Device{Name: "d"}, false, nil},
		"attribute":     {attributes("gpu.example.com/model", one), false, nil},
		"version":       {attributes("v", resourcev1.DeviceAttribute{VersionValue: new("1.2.3-rc.1+b")}), false, nil},
		"other version": {attributes("v", resourcev1.DeviceAttribute{VersionValue: new("1.2")}), false, []string{`d.attributes[v].version: Invalid value: "1.2": must be a string compatible with semver.org spec 2.0.0`}},
		"long value":    {attributes("v", resourcev1.DeviceAttribute{StringValue: new(strings.Repeat("x", 65))}), false, []string{"d.attributes[v].string: Too long: may not be more than 64 bytes"}},
		"no value":      {attributes("v", resourcev1.DeviceAttribute{}), false, []string{`d.attributes[v]: Invalid value: "": must specify one of: ` + all}},
		"two values":    {attributes("v", resourcev1.DeviceAttribute{IntValue: new(int64(1)), BoolValue: new(true)}), false, []string{`d.attributes[v]: Invalid value: "": must specify exactly one of: ` + all}},
		"no domain":     {attributes("/v", one), false, []string{`d.attributes: Invalid value: "": the domain must not be empty`}},
		"no name":       {attributes("a/", one), false, []string{`d.attributes: Invalid value: "": the name must not be empty`}},
		"long name":     {attributes(strings.Repeat("x", 33), one), false, []string{"d.attributes: Too long: may not be more than 32 bytes"}},
		"counters": {resourcev1.Device{Name: "d", ConsumesCounters: []resourcev1.DeviceCounterConsumption{{}, {CounterSet: "c", Counters: map[string]resourcev1.Counter{"m": {}}}}}, false, []string{
			"d.consumesCounters[0].counterSet: Required value", "d.consumesCounters[0].counters: Required value",
		}},
		"bindings": {resourcev1.Device{Name: "d", BindingConditions: []string{"a", "a"}, BindingFailureConditions: []string{"a"}}, false, []string{
			`d.bindingConditions[1]: Duplicate value: "a"`, `d.bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions`,
		}},
		"half bindings": {resourcev1.Device{Name: "d", BindingConditions: []string{"a"}}, false, []string{
			"d.bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions",
		}},
		"other half": {resourcev1.Device{Name: "d", BindingFailureConditions: []string{"a"}}, false, []string{
			"d.bindingConditions: Invalid value: null: bindingConditions are required to use bindingFailureConditions",
		}},
		"nodes of a device": {resourcev1.Device{Name: "d", AllNodes: new(true)}, true, nil},
		"unasked nodes": {resourcev1.Device{Name: "d", AllNodes: new(true)}, false, []string{
			"d: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
		}},
		"no nodes": {resourcev1.Device{Name: "d", NodeName: new(""), AllNodes: new(false)}, true, []string{
			`d.nodeName: Invalid value: "": must not be empty`, "d.allNodes: Invalid value: false: must be either unset or set to true",
			"d: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
		}},
		"two kinds of nodes": {resourcev1.Device{Name: "d", NodeName: new("n"), NodeSelector: &corev1.NodeSelector{}}, true, []string{
			"d.nodeSelector.nodeSelectorTerms: Required value: must have at least one node selector term",
			"d: Invalid value: \"{`nodeName`, `nodeSelector`}\": exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec",
		}},
		"too many": {resourcev1.Device{Name: "d", Attributes: many}, false, []string{"d: Invalid value: 33: the total number of attributes and capacities must not exceed 32"}},
	} {
		t.Run(name, func(t *testing.T) {
			errortest.Exactly(t, device(&tc.device, nil, tc.perDevice, field.NewPath("d")), tc.want...)
		})
	}
	bad := resourcev1.Device{
		Name: "d", Taints: []resourcev1.DeviceTaint{{Key: "k", Effect: "Odd"}},
		Capacity: map[resourcev1.QualifiedName]resourcev1.DeviceCapacity{"m": {RequestPolicy: &resourcev1.CapacityRequestPolicy{}}},
	}
	errortest.Exactly(t, device(&bad, bad.DeepCopy(), false, field.NewPath("d")))
	errortest.Contain(t, device(&bad, nil, false, field.NewPath("d")), "d.taints[0].effect: Unsupported value", "d.capacity[m].requestPolicy: Forbidden")
}

func TestDisabledFeatures(t *testing.T) {
	with := func() *resourcev1.ResourceSliceSpec {
		return &resourcev1.ResourceSliceSpec{
			PartitionTypeAttribute: new(resourcev1.FullyQualifiedName("a/b")), SkipNodeOperations: []resourcev1.SkipNodeOperation{"*"},
			Devices: []resourcev1.Device{{
				Attributes:               map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"a": {IntValues: []int64{1}}},
				ConsumesCounters:         []resourcev1.DeviceCounterConsumption{{CompatibilityGroups: []string{"g"}}},
				NodeAllocatableResources: map[corev1.ResourceName]resourcev1.NodeAllocatableResource{"cpu": {}},
			}},
		}
	}
	left := func(s *resourcev1.ResourceSliceSpec) int {
		d, count := s.Devices[0], 0
		for _, has := range []bool{
			s.PartitionTypeAttribute != nil, s.SkipNodeOperations != nil, d.Attributes["a"].IntValues != nil,
			d.ConsumesCounters[0].CompatibilityGroups != nil, d.NodeAllocatableResources != nil,
		} {
			if has {
				count++
			}
		}
		return count
	}
	fresh, kept := with(), with()
	if withoutDisabled(fresh, nil); left(fresh) != 0 {
		t.Errorf("a new list keeps %d of 5 features", left(fresh))
	}
	if withoutDisabled(kept, with()); left(kept) != 5 {
		t.Errorf("a list that has them keeps %d of 5 features", left(kept))
	}
	derived := func() *resourcev1.DeviceClaim {
		attributes := []resourcev1.DeviceDerivedAttribute{{}}
		return &resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
			{Exactly: &resourcev1.ExactDeviceRequest{DerivedAttributes: attributes}}, {FirstAvailable: []resourcev1.DeviceSubRequest{{DerivedAttributes: attributes}}},
		}}
	}
	c := derived()
	if withoutDerived(c, derived()); c.Requests[0].Exactly.DerivedAttributes == nil {
		t.Error("a claim that has derived attributes loses them")
	}
	if withoutDerived(c, nil); c.Requests[0].Exactly.DerivedAttributes != nil || c.Requests[1].FirstAvailable[0].DerivedAttributes != nil {
		t.Error("a new claim keeps derived attributes")
	}
}

func TestDeviceStatus(t *testing.T) {
	allocation := func(names ...string) *resourcev1.AllocationResult {
		a := &resourcev1.AllocationResult{}
		for _, name := range names {
			a.Devices.Results = append(a.Devices.Results, resourcev1.DeviceRequestAllocationResult{
				Request: "one", Driver: "gpu.example.com", Pool: "p", Device: name, SkipNodeOperations: []resourcev1.SkipNodeOperation{"*"},
			})
		}
		return a
	}
	old, c := newClaim(), newClaim()
	old.Status.Allocation = allocation("d", "e")
	c.Status.Allocation = allocation("d")
	c.Status.Devices = []resourcev1.AllocatedDeviceStatus{
		{Driver: "gpu.example.com", Pool: "p", Device: "d"}, {Driver: "gpu.example.com", Pool: "p", Device: "e"},
	}
	ResourceClaim().Subresources["status"].Prepare(c, old)
	if len(c.Status.Devices) != 1 || c.Status.Devices[0].Device != "d" {
		t.Errorf("got the statuses %+v, want only that of the device that stays", c.Status.Devices)
	}
	fresh := newClaim()
	fresh.Status.Allocation = allocation("d")
	if ResourceClaim().Subresources["status"].Prepare(fresh, newClaim()); fresh.Status.Allocation.Devices.Results[0].SkipNodeOperations != nil {
		t.Error("a new allocation skips calls to the driver")
	}
	fresh.Status.Allocation.Devices.Config = []resourcev1.DeviceAllocationConfiguration{{DeviceConfiguration: opaque("{}")}, {Source: "FromHome", DeviceConfiguration: opaque("{}")}}
	fresh.Status.Devices = []resourcev1.AllocatedDeviceStatus{{
		Driver: "gpu.example.com", Pool: "p", Device: "x", ShareID: new("x"),
		NetworkData: &resourcev1.NetworkDeviceData{InterfaceName: strings.Repeat("i", 257), HardwareAddress: strings.Repeat("h", 129), IPs: []string{"10.0.0.1/8", "10.0.0.1/8"}},
	}}
	errortest.Contain(t, validateClaimStatus(fresh, newClaim()), "status.allocation.devices.config[0].source: Required value",
		`status.allocation.devices.config[1].source: Unsupported value: "FromHome"`, "status.devices[0].shareID: Invalid value", "must be an allocated device in the claim",
		"status.devices[0].networkData.interfaceName: Too long: may not be more than 256 bytes",
		"status.devices[0].networkData.hardwareAddress: Too long: may not be more than 128 bytes", `status.devices[0].networkData.ips[1]: Duplicate value: "10.0.0.1/8"`)
}
