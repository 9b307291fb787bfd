package pod

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// prepareStatus drops everything from a pod update but the status and metadata. It keeps what clients that
// do not know a field drop, and drops fields of features that are off, unless the pod has them already.
func prepareStatus(p, old *corev1.Pod) {
	p.Spec = *old.Spec.DeepCopy()
	p.DeletionTimestamp, p.OwnerReferences = nil, old.OwnerReferences
	now, before := &p.Status, old.Status.DeepCopy()
	now.QOSClass = cmp.Or(now.QOSClass, before.QOSClass, qosClass(p))
	if now.ResourceClaimStatuses == nil { // An empty list removes them.
		now.ResourceClaimStatuses = before.ResourceClaimStatuses
	}
	if now.ExtendedResourceClaimStatus == nil {
		now.ExtendedResourceClaimStatus = before.ExtendedResourceClaimStatus
	}
	if len(before.NodeAllocatableResourceClaimStatuses) == 0 {
		now.NodeAllocatableResourceClaimStatuses = nil
	} else if now.NodeAllocatableResourceClaimStatuses == nil {
		now.NodeAllocatableResourceClaimStatuses = before.NodeAllocatableResourceClaimStatuses
	}
	if len(before.VolumeHealth) == 0 {
		now.VolumeHealth = nil
	}
	if !anyVolumeStatus(before, func(*corev1.VolumeMountStatus) {}) {
		anyVolumeStatus(now, func(m *corev1.VolumeMountStatus) { m.VolumeStatus = nil })
	}
	keepObserved(now, before)
}

// anyVolumeStatus calls do for each mount with a volume status, and reports whether there is one.
func anyVolumeStatus(s *corev1.PodStatus, do func(*corev1.VolumeMountStatus)) bool {
	found := false
	for _, list := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses, s.EphemeralContainerStatuses} {
		for i := range list {
			for j := range list[i].VolumeMounts {
				if m := &list[i].VolumeMounts[j]; m.VolumeStatus != nil {
					found = true
					do(m)
				}
			}
		}
	}
	return found
}

// keepObserved keeps the generations that the status and its conditions are about, where they are missing.
// Of several conditions of a type, each takes the place of the one before it in order.
func keepObserved(now, before *corev1.PodStatus) {
	now.ObservedGeneration = cmp.Or(now.ObservedGeneration, before.ObservedGeneration)
	known := map[corev1.PodConditionType][]int64{}
	for _, c := range before.Conditions {
		known[c.Type] = append(known[c.Type], c.ObservedGeneration)
	}
	for i := range now.Conditions {
		c := &now.Conditions[i]
		if first := known[c.Type]; len(first) > 0 {
			c.ObservedGeneration, known[c.Type] = cmp.Or(c.ObservedGeneration, first[0]), first[1:]
		}
	}
}
