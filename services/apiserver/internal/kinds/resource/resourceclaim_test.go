package resource

import (
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
)

func TestDevices(t *testing.T) {
	s := ResourceSlice()
	slice, old := &resourcev1.ResourceSlice{}, &resourcev1.ResourceSlice{}
	slice.Spec = resourcev1.ResourceSliceSpec{NodeName: new("n"), Driver: "d", Pool: resourcev1.ResourcePool{Name: "p"}}
	slice.Spec.Devices = []resourcev1.Device{{Name: "a", Taints: []resourcev1.DeviceTaint{{Key: "k", Effect: "NoSchedule"}}}}
	s.Default(slice)
	if slice.Spec.Devices[0].Taints[0].TimeAdded == nil {
		t.Error("a taint has no time")
	}
	s.PrepareForCreate(old)
	s.Update.Prepare(slice, old)
	if old.Generation != 1 || slice.Generation != 2 {
		t.Errorf("got generations %d and %d", old.Generation, slice.Generation)
	}
	for label, want := range map[string]string{"spec.nodeName": "n", "spec.driver": "d", "spec.pool.name": "p"} {
		if got := s.Fields(slice)[label]; got != want {
			t.Errorf("%s: got %q", label, got)
		}
	}

	claim, was := &resourcev1.ResourceClaim{}, &resourcev1.ResourceClaim{}
	claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{
		{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{Tolerations: make([]resourcev1.DeviceToleration, 1)}},
		{Name: "s", FirstAvailable: []resourcev1.DeviceSubRequest{{AllocationMode: resourcev1.DeviceAllocationModeAll}}},
	}
	ResourceClaim().Default(claim)
	first, second := claim.Spec.Devices.Requests[0].Exactly, claim.Spec.Devices.Requests[1].FirstAvailable[0]
	if first.AllocationMode != "ExactCount" || first.Count != 1 || first.Tolerations[0].Operator != "Equal" || second.Count != 0 {
		t.Errorf("got defaults %+v and %+v", first, second)
	}
	claim.Labels = map[string]string{"a": "b"}
	ResourceClaim().Subresources["status"].Prepare(claim, was)
	if len(claim.Spec.Devices.Requests) > 0 || claim.Labels != nil {
		t.Errorf("the status update changed %+v", claim)
	}
}
