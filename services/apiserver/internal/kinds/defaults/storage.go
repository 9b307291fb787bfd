package defaults

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// PersistentVolume sets the defaults of a persistent volume and its source.
func PersistentVolume(v *corev1.PersistentVolume) {
	setString(&v.Status.Phase, corev1.VolumePending)
	setString(&v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	set(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	roundUp(v.Spec.Capacity)
	volumeSource(&v.Spec.PersistentVolumeSource)
}

func volumeSource(s *corev1.PersistentVolumeSource) {
	if s.HostPath != nil {
		set(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.ISCSI != nil {
		setString(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.RBD != nil {
		setString(&s.RBD.RBDPool, "rbd")
		setString(&s.RBD.RadosUser, "admin")
		setString(&s.RBD.Keyring, "/etc/ceph/keyring")
	}
	azureDisk(s.AzureDisk)
	if s.ScaleIO != nil {
		setString(&s.ScaleIO.StorageMode, "ThinProvisioned")
		setString(&s.ScaleIO.FSType, "xfs")
	}
}

// VolumeAttachment sets the defaults of a volume source embedded in an attachment.
func VolumeAttachment(a *storagev1.VolumeAttachment) {
	if inline := a.Spec.Source.InlineVolumeSpec; inline != nil {
		roundUp(inline.Capacity)
		volumeSource(&inline.PersistentVolumeSource)
	}
}

// CSIDriver sets the defaults of a CSI driver.
func CSIDriver(d *storagev1.CSIDriver) {
	set(&d.Spec.AttachRequired, true)
	set(&d.Spec.PodInfoOnMount, false)
	set(&d.Spec.StorageCapacity, false)
	set(&d.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(d.Spec.VolumeLifecycleModes) == 0 {
		d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	set(&d.Spec.RequiresRepublish, false)
	set(&d.Spec.SELinuxMount, false)
	set(&d.Spec.PreventPodSchedulingIfMissing, false)
}
