package podtemplate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestVolumeDefaults checks every default of a pod's volumes, and that none replaces what is set.
func TestVolumeDefaults(t *testing.T) {
	mode, other, name := new(int32(0o644)), new(int32(0)), "metadata.name"
	field := func(version string) []corev1.DownwardAPIVolumeFile {
		return []corev1.DownwardAPIVolumeFile{{Path: "a"}, {FieldRef: &corev1.ObjectFieldSelector{APIVersion: version, FieldPath: name}}}
	}
	claim := func(spec corev1.PersistentVolumeClaimSpec) corev1.VolumeSource {
		return corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: spec}}}
	}
	sources := func(mode *int32, version string, seconds *int64, age *int32) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: mode, Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: seconds}},
			{PodCertificate: &corev1.PodCertificateProjection{MaxExpirationSeconds: age}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: field(version)}}, {Secret: &corev1.SecretProjection{}},
		}}}
	}
	size := func(amount string) corev1.VolumeResourceRequirements {
		list := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(amount)}
		return corev1.VolumeResourceRequirements{Requests: list, Limits: list.DeepCopy()}
	}
	managed := &corev1.AzureDiskVolumeSource{
		CachingMode: new(corev1.AzureDataDiskCachingNone), Kind: new(corev1.AzureManagedDisk), FSType: new("xfs"), ReadOnly: new(true),
	}
	for _, tc := range []struct {
		name        string
		given, want corev1.VolumeSource
	}{
		{"nothing", corev1.VolumeSource{}, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		{"host path", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}, corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Type: new(corev1.HostPathUnset)}}},
		{"secret", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}}, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{DefaultMode: mode}}},
		{"secret with a mode", corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{DefaultMode: other}}, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{DefaultMode: other}}},
		{"config map", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{DefaultMode: mode}}},
		{
			"downward", corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: field("")}},
			corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{DefaultMode: mode, Items: field("v1")}},
		},
		{"projected, with a certificate of any age", sources(nil, "", nil, nil), sources(mode, "v1", new(int64(3600)), nil)},
		{"projected with times", sources(other, "v2", new(int64(600)), new(int32(3600))), sources(other, "v2", new(int64(600)), new(int32(3600)))},
		{
			"a claim with a part of a thousandth", claim(corev1.PersistentVolumeClaimSpec{Resources: size("0.0001")}),
			claim(corev1.PersistentVolumeClaimSpec{Resources: size("1m"), VolumeMode: new(corev1.PersistentVolumeFilesystem)}),
		},
		{
			"a claim of a device", claim(corev1.PersistentVolumeClaimSpec{VolumeMode: new(corev1.PersistentVolumeBlock)}),
			claim(corev1.PersistentVolumeClaimSpec{VolumeMode: new(corev1.PersistentVolumeBlock)}),
		},
		{
			"an image with a tag", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "a:b"}},
			corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "a:b", PullPolicy: corev1.PullIfNotPresent}},
		},
		{"iSCSI", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}}, corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{ISCSIInterface: "default"}}},
		{"RBD", corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{RadosUser: "me"}}, corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{
			RBDPool: "rbd", RadosUser: "me", Keyring: "/etc/ceph/keyring",
		}}},
		{"an Azure disk", corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}}, corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{
			CachingMode: new(corev1.AzureDataDiskCachingReadWrite), Kind: new(corev1.AzureSharedBlobDisk), FSType: new("ext4"), ReadOnly: new(false),
		}}},
		{"a managed Azure disk", corev1.VolumeSource{AzureDisk: managed.DeepCopy()}, corev1.VolumeSource{AzureDisk: managed}},
		{"ScaleIO", corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{}}, corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{
			StorageMode: "ThinProvisioned", FSType: "xfs",
		}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := corev1.Volume{VolumeSource: tc.given}
			volume(&v)
			if diff := cmp.Diff(tc.want, v.VolumeSource); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestPersistentVolumeDefaults checks the sources that persistent volumes have in types of their own.
func TestPersistentVolumeDefaults(t *testing.T) {
	got := corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{}, ISCSI: &corev1.ISCSIPersistentVolumeSource{}, AzureDisk: &corev1.AzureDiskVolumeSource{},
		RBD: &corev1.RBDPersistentVolumeSource{}, ScaleIO: &corev1.ScaleIOPersistentVolumeSource{FSType: "ext4"},
	}
	want := corev1.PersistentVolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Type: new(corev1.HostPathUnset)}, ISCSI: &corev1.ISCSIPersistentVolumeSource{ISCSIInterface: "default"},
		RBD: &corev1.RBDPersistentVolumeSource{RBDPool: "rbd", RadosUser: "admin", Keyring: "/etc/ceph/keyring"},
		AzureDisk: &corev1.AzureDiskVolumeSource{
			CachingMode: new(corev1.AzureDataDiskCachingReadWrite), Kind: new(corev1.AzureSharedBlobDisk), FSType: new("ext4"), ReadOnly: new(false),
		},
		ScaleIO: &corev1.ScaleIOPersistentVolumeSource{StorageMode: "ThinProvisioned", FSType: "ext4"},
	}
	VolumeSource(&got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
