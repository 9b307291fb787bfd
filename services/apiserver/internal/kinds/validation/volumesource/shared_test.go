package volumesource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestFlocker(t *testing.T) {
	check(t, corev1.VolumeSource{Flocker: &corev1.FlockerVolumeSource{DatasetUUID: "u/v"}})
	check(t, corev1.VolumeSource{Flocker: &corev1.FlockerVolumeSource{DatasetName: "a/b", DatasetUUID: "u"}},
		`v.flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously`,
		`v.flocker.datasetName: Invalid value: "a/b": must not contain '/'`)
}

func TestQuobyte(t *testing.T) {
	const pairs = "must be a host:port pair or multiple pairs separated by commas"
	for _, tc := range []struct {
		name             string
		registry, tenant string
		want             []string
	}{
		{"two pairs, the longest tenant", "a:1,[::1]:2", strings.Repeat("t", 64), nil},
		{"no registry", "", strings.Repeat("t", 65), []string{"v.quobyte.registry: Required value: " + pairs}},
		{"a tenant too long, before the registry is read", "a", strings.Repeat("t", 65), []string{
			"v.quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters",
		}},
		{"an error for each pair", "a,b:1,", "", []string{
			`v.quobyte.registry: Invalid value: "a,b:1,": ` + pairs, `v.quobyte.registry: Invalid value: "a,b:1,": ` + pairs,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, corev1.VolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: tc.registry, Tenant: tc.tenant, Volume: "v"}}, tc.want...)
		})
	}
}

func TestFibreChannel(t *testing.T) {
	wide := []string{"500a0982991b8dc5"}
	for _, tc := range []struct {
		name   string
		source corev1.FCVolumeSource
		want   []string
	}{
		{"least unit", corev1.FCVolumeSource{TargetWWNs: wide, Lun: new(int32(0))}, nil},
		{"greatest unit", corev1.FCVolumeSource{TargetWWNs: wide, Lun: new(int32(255))}, nil},
		{"unit too great", corev1.FCVolumeSource{TargetWWNs: wide, Lun: new(int32(256))}, []string{
			"v.fc.lun: Invalid value: 256: must be between 0 and 255, inclusive",
		}},
		{"identifiers of disks need no unit", corev1.FCVolumeSource{WWIDs: wide, Lun: new(int32(256))}, nil},
		{"nothing", corev1.FCVolumeSource{}, []string{
			"v.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { check(t, corev1.VolumeSource{FC: &tc.source}, tc.want...) })
	}
}

// TestAzureDisk checks that the kind of a disk decides about the form of its address. Without a kind,
// which has a default, it is not checked.
func TestAzureDisk(t *testing.T) {
	const managed, blob = "/subscriptions/s/resourcegroups/g/providers/microsoft.compute/disks/d", "https://a.blob.core.windows.net/c/d.vhd"
	const managedForm = `"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"`
	const blobForm = `"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"`
	for _, tc := range []struct {
		name string
		kind corev1.AzureDataDiskKind
		uri  string
		mode corev1.AzureDataDiskCachingMode
		want []string
	}{
		{"managed", corev1.AzureManagedDisk, managed, corev1.AzureDataDiskCachingReadWrite, nil},
		{"shared", corev1.AzureSharedBlobDisk, blob, corev1.AzureDataDiskCachingNone, nil},
		{"a managed disk with the address of a blob", corev1.AzureManagedDisk, blob, "None", []string{
			`v.azureDisk.diskURI: Unsupported value: "` + blob + `": supported values: ` + managedForm,
		}},
		{"a blob with the address of a managed disk", corev1.AzureDedicatedBlobDisk, managed, "None", []string{
			`v.azureDisk.diskURI: Unsupported value: "` + managed + `": supported values: ` + blobForm,
		}},
		{"unknown words", "managed", blob, "readonly", []string{
			`v.azureDisk.cachingMode: Unsupported value: "readonly": supported values: "None", "ReadOnly", "ReadWrite"`,
			`v.azureDisk.kind: Unsupported value: "managed": supported values: "Dedicated", "Managed", "Shared"`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{
				DiskName: "d", DataDiskURI: tc.uri, Kind: &tc.kind, CachingMode: &tc.mode,
			}}, tc.want...)
		})
	}
	check(t, corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "u"}})
}
