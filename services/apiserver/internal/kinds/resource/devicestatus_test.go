package resource

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// holding returns an allocation of shares of one device; the empty share is the whole device.
func holding(shares ...types.UID) *resourcev1.AllocationResult {
	a := &resourcev1.AllocationResult{}
	for _, share := range shares {
		r := resourcev1.DeviceRequestAllocationResult{Request: "one", Driver: "gpu.example.com", Pool: "p", Device: "d"}
		if share != "" {
			r.ShareID = &share
		}
		a.Devices.Results = append(a.Devices.Results, r)
	}
	return a
}

// reporting returns statuses of shares of that device.
func reporting(shares ...string) []resourcev1.AllocatedDeviceStatus {
	var list []resourcev1.AllocatedDeviceStatus
	for _, share := range shares {
		s := resourcev1.AllocatedDeviceStatus{Driver: "gpu.example.com", Pool: "p", Device: "d"}
		if share != "" {
			s.ShareID = &share
		}
		list = append(list, s)
	}
	return list
}

// TestReleasedShares checks that the statuses of devices and shares that a claim gives back go, and that
// validation sees the others.
func TestReleasedShares(t *testing.T) {
	for name, tc := range map[string]struct {
		had, has       *resourcev1.AllocationResult
		reported, want []resourcev1.AllocatedDeviceStatus
	}{
		"nothing changes":         {holding("", "a"), holding("", "a"), reporting("", "a"), reporting("", "a")},
		"a share goes":            {holding("a", "b"), holding("b"), reporting("a", "b"), reporting("b")},
		"the whole goes":          {holding("", "b"), holding("b"), reporting("", "b"), reporting("b")},
		"all goes":                {holding("a"), nil, reporting("a"), nil},
		"never held":              {nil, nil, reporting("a"), reporting("a")},
		"held for the first time": {nil, holding("a"), reporting("a"), reporting("a")},
	} {
		t.Run(name, func(t *testing.T) {
			c, old := newClaim(), newClaim()
			old.Status.Allocation, c.Status = tc.had, resourcev1.ResourceClaimStatus{Allocation: tc.has, Devices: tc.reported}
			forgetReleased(c, old)
			if diff := cmp.Diff(tc.want, c.Status.Devices); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestReportedDevices checks each part of the status of a device.
func TestReportedDevices(t *testing.T) {
	const share = "10000000-2000-4000-8000-300000000000"
	type status = *resourcev1.AllocatedDeviceStatus
	at := field.NewPath("devices").Index(0)
	for name, tc := range map[string]struct {
		change func(status)
		want   []string
	}{
		"good":          {func(status) {}, nil},
		"another share": {func(s status) { s.ShareID = new("20000000-2000-4000-8000-300000000000") }, []string{`devices[0]: Invalid value: "gpu.example.com/p/d": must be an allocated device in the claim`}},
		"whole device":  {func(s status) { s.ShareID = nil }, []string{"must be an allocated device in the claim"}},
		"no names": {func(s status) { s.Driver, s.Pool, s.Device = "", "", "" }, []string{
			"devices[0].driver: Required value", "devices[0].pool: Required value", `devices[0].device: Invalid value: ""`,
		}},
		"conditions": {func(s status) {
			for i := range resourcev1.AllocatedDeviceStatusMaxConditions + 1 {
				s.Conditions = append(s.Conditions, metav1.Condition{Type: fmt.Sprint("a", i), Status: "True", Reason: "R", LastTransitionTime: metav1.Now()})
			}
			s.Conditions[0].Status = "Odd"
		}, []string{"devices[0].conditions: Too many: 9: must have at most 8 items", "devices[0].conditions[0].status: Unsupported value"}},
		"data":         {func(s status) { s.Data = &runtime.RawExtension{Raw: []byte("[]")} }, []string{"devices[0].data: Invalid value"}},
		"data of nine": {func(s status) { s.Data = &runtime.RawExtension{Raw: []byte(`{"a":"b"}`)} }, nil},
		"much data": {func(s status) {
			s.Data = &runtime.RawExtension{Raw: []byte(`{"a":"` + strings.Repeat("b", resourcev1.AllocatedDeviceStatusDataMaxLength) + `"}`)}
		}, []string{"devices[0].data: Too long"}},
		"address": {func(s status) { s.NetworkData = &resourcev1.NetworkDeviceData{IPs: []string{"10.0.0.1"}} }, []string{"devices[0].networkData.ips[0]: Invalid value"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := reporting(share)[0]
			tc.change(&s)
			errortest.Contain(t, deviceStatus(&s, allocated(holding(share)), at), tc.want...)
		})
	}
}
