package devicetainteviction

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	dra "k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/garboard/garboard/libs/informer"
)

// devices knows the taints of allocated devices.
type devices struct {
	claims informer.SharedInformer[*resourcev1.ResourceClaim]
	slices informer.SharedInformer[*resourcev1.ResourceSlice]
	rules  informer.SharedInformer[*resourcev1.DeviceTaintRule]
}

// eviction says when a pod must go.
type eviction struct {
	at time.Time
	// rules are those among the causes, each once.
	rules []*resourcev1.DeviceTaintRule
}

// add merges a cause. The earliest counts.
func (e *eviction) add(at time.Time, rule *resourcev1.DeviceTaintRule) *eviction {
	if e == nil {
		e = &eviction{at: at}
	}
	if at.Before(e.at) {
		e.at = at
	}
	if rule != nil && !slices.Contains(e.rules, rule) {
		e.rules = append(e.rules, rule)
	}
	return e
}

// eviction returns when a pod must go; nil if it stays.
func (d *devices) eviction(pod *corev1.Pod) *eviction {
	if pod.Spec.NodeName == "" {
		return nil
	}
	var found *eviction
	for i := range pod.Spec.ResourceClaims {
		claimName, made, err := dra.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil || claimName == nil {
			continue
		}
		claim, known := d.claims.Indexer().GetByKey(informer.KeyOf(pod.Namespace, *claimName))
		if !known || claim.Status.Allocation == nil || !granted(pod, claim, made) {
			continue
		}
		for j := range claim.Status.Allocation.Devices.Results {
			found = d.ofDevice(found, &claim.Status.Allocation.Devices.Results[j])
		}
	}
	return found
}

// granted reports whether a pod may use a claim that it names. A claim that was made for a pod must be its own.
func granted(pod *corev1.Pod, claim *resourcev1.ResourceClaim, made bool) bool {
	return (!made || dra.IsForPod(pod, claim, false) == nil) && dra.IsReservedForPod(pod, claim, false)
}

// uses reports whether a pod on a node uses a claim.
func uses(pod *corev1.Pod, claim *resourcev1.ResourceClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for i := range pod.Spec.ResourceClaims {
		claimName, made, err := dra.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && claimName != nil && *claimName == claim.Name && granted(pod, claim, made) {
			return true
		}
	}
	return false
}

// ofDevice merges the taints of an allocated device into an eviction, which may be nil.
func (d *devices) ofDevice(found *eviction, allocated *resourcev1.DeviceRequestAllocationResult) *eviction {
	if device := d.published(allocated); device != nil {
		for i := range device.Taints {
			if leaves, at := departure(&device.Taints[i], allocated.Tolerations); leaves {
				found = found.add(at, nil)
			}
		}
	}
	for _, rule := range d.rules.Indexer().List() {
		if !matches(rule, allocated.Driver, allocated.Pool, allocated.Device) {
			continue
		}
		if leaves, at := departure(&rule.Spec.Taint, allocated.Tolerations); leaves {
			found = found.add(at, rule)
		}
	}
	return found
}

// departure reports whether a device's taint drives off the pods of a claim with these tolerations, and when.
// Only tolerations of NoExecute count, and the shortest of them.
func departure(taint *resourcev1.DeviceTaint, tolerations []resourcev1.DeviceToleration) (leaves bool, at time.Time) {
	if taint.Effect != resourcev1.DeviceTaintEffectNoExecute || taint.TimeAdded == nil {
		return false, time.Time{}
	}
	wait := longest
	tolerated := false
	for _, toleration := range tolerations {
		if toleration.Effect != resourcev1.DeviceTaintEffectNoExecute || !dra.ToleratesTaint(toleration, *taint) {
			continue
		}
		if toleration.TolerationSeconds == nil {
			return false, time.Time{}
		}
		tolerated, wait = true, min(wait, lasting(*toleration.TolerationSeconds))
	}
	if !tolerated {
		wait = 0
	}
	return true, taint.TimeAdded.Add(wait)
}

// longest bounds tolerations: a time.Duration ends at 292 years.
const longest = 100 * 365 * 24 * time.Hour

// lasting returns the duration of a toleration.
func lasting(seconds int64) time.Duration {
	return time.Duration(min(max(seconds, 0), int64(longest/time.Second))) * time.Second
}

// published returns a device as its driver's newest slices describe it; nil if they do not.
func (d *devices) published(allocated *resourcev1.DeviceRequestAllocationResult) *resourcev1.Device {
	for _, slice := range d.newest(pool(allocated.Driver, allocated.Pool)) {
		for i := range slice.Spec.Devices {
			if slice.Spec.Devices[i].Name == allocated.Device {
				return &slice.Spec.Devices[i]
			}
		}
	}
	return nil
}

// newest returns the slices of a pool that are of its latest generation, sorted by name.
func (d *devices) newest(pool string) []*resourcev1.ResourceSlice {
	found, err := d.slices.Indexer().ByIndex(slicePoolIndex, pool)
	if err != nil || len(found) == 0 {
		return nil // The index is added before the first event.
	}
	latest := slices.MaxFunc(found, func(a, b *resourcev1.ResourceSlice) int {
		return cmp.Compare(a.Spec.Pool.Generation, b.Spec.Pool.Generation)
	}).Spec.Pool.Generation
	found = slices.DeleteFunc(slices.Clone(found), func(s *resourcev1.ResourceSlice) bool { return s.Spec.Pool.Generation != latest })
	slices.SortFunc(found, func(a, b *resourcev1.ResourceSlice) int { return cmp.Compare(a.Name, b.Name) })
	return found
}

// pool returns the key of a pool. Names of drivers have no slash.
func pool(driver, name string) string { return driver + "/" + name }

func poolOf(slice *resourcev1.ResourceSlice) string {
	return pool(slice.Spec.Driver, slice.Spec.Pool.Name)
}

// slicePools returns the pool of a slice.
func slicePools(slice *resourcev1.ResourceSlice) ([]string, error) {
	return []string{poolOf(slice)}, nil
}

// claimPools returns the pools of a claim's devices.
func claimPools(claim *resourcev1.ResourceClaim) ([]string, error) {
	if claim.Status.Allocation == nil {
		return nil, nil
	}
	var keys []string
	for i := range claim.Status.Allocation.Devices.Results {
		r := &claim.Status.Allocation.Devices.Results[i]
		if key := pool(r.Driver, r.Pool); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

// matches reports whether a rule selects a device.
func matches(rule *resourcev1.DeviceTaintRule, driver, pool, device string) bool {
	s := rule.Spec.DeviceSelector
	same := func(wanted *string, got string) bool { return wanted == nil || *wanted == got }
	return s != nil && same(s.Driver, driver) && same(s.Pool, pool) && same(s.Device, device)
}

// selects returns how many devices of a claim a rule, which may be nil, selects.
func selects(rule *resourcev1.DeviceTaintRule, claim *resourcev1.ResourceClaim) (count int) {
	if rule == nil || claim.Status.Allocation == nil {
		return 0
	}
	for i := range claim.Status.Allocation.Devices.Results {
		if r := &claim.Status.Allocation.Devices.Results[i]; matches(rule, r.Driver, r.Pool, r.Device) {
			count++
		}
	}
	return count
}

// sameClaims reports whether the claims that were made for a pod are the same.
func sameClaims(a, b *corev1.Pod) bool {
	return dra.PodStatusEqual(a.Status.ResourceClaimStatuses, b.Status.ResourceClaimStatuses)
}

// sameUse reports whether the devices and the users of a claim are the same.
func sameUse(a, b *resourcev1.ResourceClaim) bool {
	return a.UID == b.UID && slices.Equal(a.Status.ReservedFor, b.Status.ReservedFor) &&
		equality.Semantic.DeepEqual(a.Status.Allocation, b.Status.Allocation)
}

// sameTaints reports whether two states of a slice have the same tainted devices, and the same weight among
// the slices of their pool.
func sameTaints(a, b *resourcev1.ResourceSlice) bool {
	return poolOf(a) == poolOf(b) && a.Spec.Pool.Generation == b.Spec.Pool.Generation && equality.Semantic.DeepEqual(tainted(a), tainted(b))
}

// tainted returns the taints of the devices of a slice that have any.
func tainted(slice *resourcev1.ResourceSlice) map[string][]resourcev1.DeviceTaint {
	found := map[string][]resourcev1.DeviceTaint{}
	for i := range slice.Spec.Devices {
		if device := &slice.Spec.Devices[i]; len(device.Taints) > 0 {
			found[device.Name] = device.Taints
		}
	}
	return found
}

// ruleDiffers reports whether a rule is another one, or has another spec.
func ruleDiffers(a, b *resourcev1.DeviceTaintRule) bool {
	return a.UID != b.UID || !equality.Semantic.DeepEqual(&a.Spec, &b.Spec)
}
