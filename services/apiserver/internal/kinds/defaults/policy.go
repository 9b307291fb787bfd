package defaults

import (
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// ResourceQuota sets the defaults of a resource quota.
func ResourceQuota(q *corev1.ResourceQuota) {
	roundUp(q.Spec.Hard)
	roundUp(q.Status.Hard)
	roundUp(q.Status.Used)
}

// LimitRange sets the defaults of a limit range: for containers, the default limit is the maximum,
// and the default request is the default limit, or else the minimum.
func LimitRange(l *corev1.LimitRange) {
	for i := range l.Spec.Limits {
		item := &l.Spec.Limits[i]
		for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
			roundUp(list)
		}
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		item.Default = fillFrom(item.Default, item.Max)
		item.DefaultRequest = fillFrom(item.DefaultRequest, item.Default)
		item.DefaultRequest = fillFrom(item.DefaultRequest, item.Min)
	}
}

// fillFrom adds the entries of other that list lacks.
func fillFrom(list, other corev1.ResourceList) corev1.ResourceList {
	for name, quantity := range other {
		if _, ok := list[name]; ok {
			continue
		}
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = quantity.DeepCopy()
	}
	return list
}

// PriorityClass sets the defaults of a priority class.
func PriorityClass(c *schedulingv1.PriorityClass) {
	set(&c.PreemptionPolicy, corev1.PreemptLowerPriority)
}

// StorageClass sets the defaults of a storage class.
func StorageClass(c *storagev1.StorageClass) {
	set(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	set(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

// PersistentVolumeClaim sets the defaults of a claim.
func PersistentVolumeClaim(c *corev1.PersistentVolumeClaim) {
	setString(&c.Status.Phase, corev1.ClaimPending)
	claimSpec(&c.Spec)
	roundUp(c.Status.Capacity)
	roundUp(c.Status.AllocatedResources)
}

func claimSpec(s *corev1.PersistentVolumeClaimSpec) {
	set(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(s.Resources.Limits)
	roundUp(s.Resources.Requests)
}
