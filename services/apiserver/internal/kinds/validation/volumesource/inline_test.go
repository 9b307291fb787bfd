package volumesource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestISCSINames checks the three forms of names.
func TestISCSINames(t *testing.T) {
	const beginning, form = "must be valid format starting with iqn, eui, or naa", "must be valid format"
	for name, want := range map[string]string{
		"iqn.2001-04.com.example:storage.disk": "",
		"iqn.2001-04.com.example":              form, // Nothing after the host.
		"iqn.201-04.com.example:a":             form,
		"iqn.2001-04.com.example:a;b":          form,
		"eui.0123456789abcdef":                 "",
		"eui.0123456789abcde":                  form,
		"eui.0123456789abcdef0":                form,
		"naa." + strings.Repeat("0", 32):       "",
		"naa." + strings.Repeat("0", 31):       form,
		"IQN.2001-04.com.example:storage.disk": beginning,
		"":                                     beginning,
	} {
		t.Run(name, func(t *testing.T) {
			var errs []string
			if want != "" {
				errs = []string{`v.iscsi.initiatorname: Invalid value: "` + name + `": ` + want}
			}
			check(t, corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{
				TargetPortal: "p", IQN: "eui.0123456789abcdef", Lun: 255, InitiatorName: &name,
			}}, errs...)
		})
	}
}

func TestISCSI(t *testing.T) {
	name := new("eui.0123456789abcdef")
	for _, tc := range []struct {
		name   string
		source corev1.ISCSIVolumeSource
		want   []string
	}{
		{"nothing", corev1.ISCSIVolumeSource{}, []string{"v.iscsi.targetPortal: Required value", "v.iscsi.iqn: Required value"}},
		{"authentication with a secret", corev1.ISCSIVolumeSource{
			TargetPortal: "p", IQN: *name, DiscoveryCHAPAuth: true, SecretRef: &corev1.LocalObjectReference{},
		}, nil},
		{"authentication without a secret, a negative unit", corev1.ISCSIVolumeSource{TargetPortal: "p", IQN: *name, DiscoveryCHAPAuth: true, Lun: -1}, []string{
			"v.iscsi.lun: Invalid value: -1: must be between 0 and 255, inclusive", "v.iscsi.secretRef: Required value",
		}},
		// The volume is called data.
		{"the longest portal", corev1.ISCSIVolumeSource{TargetPortal: strings.Repeat("p", 59), IQN: *name, InitiatorName: name}, nil},
		{"a longer one", corev1.ISCSIVolumeSource{TargetPortal: strings.Repeat("p", 60), IQN: *name, InitiatorName: name}, []string{
			`v.name: Invalid value: "data": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.`,
		}},
		{"a longer one without an initiator", corev1.ISCSIVolumeSource{TargetPortal: strings.Repeat("p", 60), IQN: *name}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) { check(t, corev1.VolumeSource{ISCSI: &tc.source}, tc.want...) })
	}
}

// TestFlexOptions checks which keys of options are Kubernetes' own.
func TestFlexOptions(t *testing.T) {
	for key, reserved := range map[string]bool{
		"kubernetes.io/a": true, "K8S.io": true, "storage.kubernetes.io/a": true,
		"mykubernetes.io/a": false, "a/k8s.io": false, "example.com/kubernetes.io/a": false,
	} {
		t.Run(key, func(t *testing.T) {
			var want []string
			if reserved {
				want = []string{"v.flexVolume.options[" + key + `]: Invalid value: "` + key + `": kubernetes.io and k8s.io namespaces are reserved`}
			}
			check(t, corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "d", Options: map[string]string{key: ""}}}, want...)
		})
	}
}

func TestStorageOS(t *testing.T) {
	check(t, corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{VolumeName: strings.Repeat("a", 63), VolumeNamespace: "b"}})
	check(t, corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{VolumeName: strings.Repeat("a", 64), VolumeNamespace: "a.b"}},
		`v.storageos.volumeName: Invalid value: "`+strings.Repeat("a", 64)+`": must be no more than 63 characters`,
		`v.storageos.volumeNamespace: Invalid value: "a.b": must not contain dots`)
}

// TestCSI checks drivers and secrets. Kubernetes reports an invalid name of a secret at a field that
// does not exist.
func TestCSI(t *testing.T) {
	check(t, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: strings.Repeat("D", 63)}})
	check(t, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: strings.Repeat("d", 64)}}, "v.csi.driver: Too long: may not be more than 63 bytes")
	check(t, corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: "d_e", NodePublishSecretRef: &corev1.LocalObjectReference{Name: "A"},
	}}, `v.csi.driver: Invalid value: "d_e": `+subdomain, `v.csi.name: Invalid value: "A": `+subdomain)
}

// TestOtherVendors checks what the table of all sources does not reach.
func TestOtherVendors(t *testing.T) {
	check(t, corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "v", SecretRef: &corev1.LocalObjectReference{Name: "s"}}})
	for _, partition := range []int32{0, 255} {
		check(t, corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "d", Partition: partition}})
	}
	check(t, corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "v", Partition: -1}},
		"v.awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive")
	check(t, corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "r"}}, "v.image.pullPolicy: Required value")
	check(t, corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "r", PullPolicy: corev1.PullNever}})
}
