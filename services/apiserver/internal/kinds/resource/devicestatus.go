package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// deviceID identifies a device, or the share of one that is allocated.
type deviceID struct{ driver, pool, device, share string }

func statusID(d *resourcev1.AllocatedDeviceStatus) deviceID {
	id := deviceID{d.Driver, d.Pool, d.Device, ""}
	if d.ShareID != nil {
		id.share = *d.ShareID
	}
	return id
}

// allocated returns the devices of an allocation, which may be nil.
func allocated(a *resourcev1.AllocationResult) map[deviceID]bool {
	if a == nil {
		return nil
	}
	found := map[deviceID]bool{}
	for i := range a.Devices.Results {
		r := &a.Devices.Results[i]
		id := deviceID{r.Driver, r.Pool, r.Device, ""}
		if r.ShareID != nil {
			id.share = string(*r.ShareID)
		}
		found[id] = true
	}
	return found
}

// forgetReleased drops the statuses of the devices that a claim no longer holds.
func forgetReleased(c, old *resourcev1.ResourceClaim) {
	had, has := allocated(old.Status.Allocation), allocated(c.Status.Allocation)
	var kept []resourcev1.AllocatedDeviceStatus
	for i := range c.Status.Devices {
		if id := statusID(&c.Status.Devices[i]); !had[id] || has[id] {
			kept = append(kept, c.Status.Devices[i])
		}
	}
	c.Status.Devices = kept
}

// deviceStatus checks the status of one of the allocated devices.
func deviceStatus(d *resourcev1.AllocatedDeviceStatus, allocated map[deviceID]bool, path *field.Path) field.ErrorList {
	errs := driver(d.Driver, path.Child("driver"))
	errs = append(errs, pool(d.Pool, path.Child("pool"))...)
	errs = append(errs, label(d.Device, path.Child("device"))...)
	if d.ShareID != nil {
		errs = append(errs, shared(*d.ShareID, path.Child("shareID"))...)
	}
	if !allocated[statusID(d)] {
		errs = append(errs, field.Invalid(path, d.Driver+"/"+d.Pool+"/"+d.Device, "must be an allocated device in the claim"))
	}
	if n := len(d.Conditions); n > resourcev1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(path.Child("conditions"), n, resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, metav1validation.ValidateConditions(d.Conditions, path.Child("conditions"))...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, document(*d.Data, resourcev1.AllocatedDeviceStatusDataMaxLength, path.Child("data"))...)
	}
	if d.NetworkData == nil {
		return errs
	}
	path = path.Child("networkData")
	errs = append(errs, declared(d.NetworkData.InterfaceName, path.Child("interfaceName"), atMost(resourcev1.NetworkDeviceDataInterfaceNameMaxLength))...)
	errs = append(errs, declared(d.NetworkData.HardwareAddress, path.Child("hardwareAddress"), atMost(resourcev1.NetworkDeviceDataHardwareAddressMaxLength))...)
	return append(errs, set(d.NetworkData.IPs, resourcev1.NetworkDeviceDataMaxIPs, path.Child("ips"), func(s *string) string { return *s },
		func(s *string, path *field.Path) field.ErrorList { return validation.IsValidInterfaceAddress(path, *s) })...)
}
