package resource

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
)

// TestFeaturesOfClaims checks that claims and their allocations lose the fields of disabled features, unless
// they had them before.
func TestFeaturesOfClaims(t *testing.T) {
	derived := []resourcev1.DeviceDerivedAttribute{{Name: "a", Expression: "true"}}
	exact := func(d []resourcev1.DeviceDerivedAttribute) *resourcev1.DeviceClaim {
		return &resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Exactly: &resourcev1.ExactDeviceRequest{DerivedAttributes: d}}}}
	}
	alternative := func(d []resourcev1.DeviceDerivedAttribute) *resourcev1.DeviceClaim {
		return &resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{FirstAvailable: []resourcev1.DeviceSubRequest{{}, {DerivedAttributes: d}}}}}
	}
	for name, tc := range map[string]struct{ now, old, want *resourcev1.DeviceClaim }{
		"new":                      {exact(derived), nil, exact(nil)},
		"new alternative":          {alternative(derived), nil, alternative(nil)},
		"not in use":               {exact(derived), exact(nil), exact(nil)},
		"in use":                   {exact(derived), exact(derived), exact(derived)},
		"in use by an alternative": {exact(derived), alternative(derived), exact(derived)},
	} {
		t.Run(name, func(t *testing.T) {
			withoutDerived(tc.now, tc.old)
			if diff := cmp.Diff(tc.want, tc.now); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	skipping := func(operations ...resourcev1.SkipNodeOperation) *resourcev1.AllocationResult {
		return &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
			{Request: "a"}, {Request: "b", SkipNodeOperations: operations},
		}}}
	}
	const all = resourcev1.SkipNodeOperationAll
	for name, tc := range map[string]struct{ now, old, want *resourcev1.AllocationResult }{
		"no allocation": {nil, skipping(all), nil},
		"new":           {skipping(all), nil, skipping()},
		"not in use":    {skipping(all), skipping(), skipping()},
		"in use":        {skipping(all), skipping(all), skipping(all)},
	} {
		t.Run("skipped, "+name, func(t *testing.T) {
			withoutSkipped(tc.now, tc.old)
			if diff := cmp.Diff(tc.want, tc.now); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestClaimFields checks what the creation and the update of a claim keep, as a whole and by its status.
func TestClaimFields(t *testing.T) {
	definition := ResourceClaim()
	derived := []resourcev1.DeviceDerivedAttribute{{Name: "a", Expression: "true"}}
	c := newClaim()
	c.Spec.Devices.Requests[0].Exactly.DerivedAttributes = derived
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "1"}}
	definition.PrepareForCreate(c)
	if len(c.Status.ReservedFor) > 0 || c.Spec.Devices.Requests[0].Exactly.DerivedAttributes != nil {
		t.Errorf("creation: got %+v", c)
	}
	updated := c.DeepCopy()
	updated.Spec.Devices.Requests[0].Exactly.DerivedAttributes = derived
	updated.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "1"}}
	definition.Update.Prepare(updated, c)
	if diff := cmp.Diff(c, updated); diff != "" {
		t.Errorf("update (-want +got):\n%s", diff)
	}
}
