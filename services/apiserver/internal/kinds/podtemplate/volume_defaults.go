package podtemplate

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
)

// Kubernetes' defaults for volumes.
const (
	tokenSeconds       = 3600
	defaultMode  int32 = 0o644
)

func volume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		kinds.Fill(&v.HostPath.Type, corev1.HostPathUnset)
	}
	if v.Secret != nil {
		kinds.Fill(&v.Secret.DefaultMode, defaultMode)
	}
	if v.ConfigMap != nil {
		kinds.Fill(&v.ConfigMap.DefaultMode, defaultMode)
	}
	if v.DownwardAPI != nil {
		kinds.Fill(&v.DownwardAPI.DefaultMode, defaultMode)
		for i := range v.DownwardAPI.Items {
			fieldRef(v.DownwardAPI.Items[i].FieldRef)
		}
	}
	if v.Projected != nil {
		projected(v.Projected)
	}
	if v.Image != nil {
		kinds.FillString(&v.Image.PullPolicy, pullPolicy(v.Image.Reference))
	}
	if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
		ClaimSpec(&v.Ephemeral.VolumeClaimTemplate.Spec)
	}
	externalVolume(v.ISCSI, v.RBD, v.AzureDisk, v.ScaleIO)
}

// externalVolume sets the defaults of volumes in external storage.
func externalVolume(i *corev1.ISCSIVolumeSource, r *corev1.RBDVolumeSource, d *corev1.AzureDiskVolumeSource, s *corev1.ScaleIOVolumeSource) {
	if i != nil {
		iscsi(&i.ISCSIInterface)
	}
	if r != nil {
		rbd(&r.RBDPool, &r.RadosUser, &r.Keyring)
	}
	azureDisk(d)
	if s != nil {
		scaleIO(&s.StorageMode, &s.FSType)
	}
}

// iscsi, rbd and scaleIO take fields, because the sources of persistent volumes are types of their own.
func iscsi(iface *string) { kinds.FillString(iface, "default") }

func rbd(pool, user, keyring *string) {
	kinds.FillString(pool, "rbd")
	kinds.FillString(user, "admin")
	kinds.FillString(keyring, "/etc/ceph/keyring")
}

func scaleIO(mode, fileSystem *string) {
	kinds.FillString(mode, "ThinProvisioned")
	kinds.FillString(fileSystem, "xfs")
}

func azureDisk(d *corev1.AzureDiskVolumeSource) {
	if d != nil {
		kinds.Fill(&d.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		kinds.Fill(&d.Kind, corev1.AzureSharedBlobDisk)
		kinds.Fill(&d.FSType, "ext4")
		kinds.Fill(&d.ReadOnly, false)
	}
}

func projected(p *corev1.ProjectedVolumeSource) {
	kinds.Fill(&p.DefaultMode, defaultMode)
	for i := range p.Sources {
		if token := p.Sources[i].ServiceAccountToken; token != nil {
			kinds.Fill(&token.ExpirationSeconds, int64(tokenSeconds))
		}
		if down := p.Sources[i].DownwardAPI; down != nil {
			for j := range down.Items {
				fieldRef(down.Items[j].FieldRef)
			}
		}
	}
}

func fieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		kinds.FillString(&ref.APIVersion, "v1")
	}
}

// ClaimSpec sets the defaults of the spec of a claim, and rounds its amounts.
func ClaimSpec(s *corev1.PersistentVolumeClaimSpec) {
	kinds.Fill(&s.VolumeMode, corev1.PersistentVolumeFilesystem)
	RoundUp(s.Resources.Limits)
	RoundUp(s.Resources.Requests)
}

// VolumeSource sets the defaults of the source of a persistent volume.
func VolumeSource(s *corev1.PersistentVolumeSource) {
	if s.HostPath != nil {
		kinds.Fill(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.ISCSI != nil {
		iscsi(&s.ISCSI.ISCSIInterface)
	}
	if s.RBD != nil {
		rbd(&s.RBD.RBDPool, &s.RBD.RadosUser, &s.RBD.Keyring)
	}
	azureDisk(s.AzureDisk)
	if s.ScaleIO != nil {
		scaleIO(&s.ScaleIO.StorageMode, &s.ScaleIO.FSType)
	}
}
