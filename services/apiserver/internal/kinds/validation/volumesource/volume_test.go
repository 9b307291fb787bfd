package volumesource

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestVolume(t *testing.T) {
	name := corev1.LocalObjectReference{Name: "s"}
	sized := corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}
	sized.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	for _, tc := range []struct {
		name   string
		source corev1.VolumeSource
		want   []string
	}{
		{"nothing", corev1.VolumeSource{}, []string{"v: Required value: must specify a volume type"}},
		{"two", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}, EmptyDir: &corev1.EmptyDirVolumeSource{}, CephFS: &corev1.CephFSVolumeSource{}}, []string{
			"v.nfs: Forbidden: may not specify more than 1 volume type", "v.cephFS: Forbidden: may not specify more than 1 volume type",
		}},
		{"the first in Kubernetes' order is checked", corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}, Quobyte: &corev1.QuobyteVolumeSource{Registry: "a:1", Volume: "v"}, DownwardAPI: &corev1.DownwardAPIVolumeSource{}}, []string{
			"v.downwarAPI: Forbidden: may not specify more than 1 volume type", "v.configMap: Forbidden: may not specify more than 1 volume type",
		}},
		{"empty dir", corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("-1"))}}, []string{"v.emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity"}},
		{"git", corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{Directory: "/a/.."}}, []string{
			"v.gitRepo.repository: Required value", `v.gitRepo.directory: Invalid value: "/a/..": must be a relative path`, `v.gitRepo.directory: Invalid value: "/a/..": must not contain '..'`,
		}},
		{"gce", corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{Partition: 256}}, []string{
			"v.persistentDisk.pdName: Required value", "v.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
		}},
		{"aws", corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}, []string{"v.awsElasticBlockStore.volumeID: Required value"}},
		{"nfs", corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Path: "a"}}, []string{"v.nfs.server: Required value", `v.nfs.path: Invalid value: "a": must be an absolute path`}},
		{"iscsi", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "x", Lun: 256, SessionCHAPAuth: true, InitiatorName: new("eui.1"), TargetPortal: strings.Repeat("p", 64)}}, []string{
			`v.iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa`, "v.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
			"v.iscsi.secretRef: Required value", `v.iscsi.initiatorname: Invalid value: "eui.1": must be valid format`,
			`v.name: Invalid value: "data": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.`,
		}},
		{"good iscsi", corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{IQN: "iqn.2001-04.com.example:storage", TargetPortal: "p"}}, nil},
		{"glusterfs", corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{}}, []string{"v.glusterfs.endpoints: Required value", "v.glusterfs.path: Required value"}},
		{"flocker", corev1.VolumeSource{Flocker: &corev1.FlockerVolumeSource{}}, []string{"v.flocker: Required value: one of datasetName and datasetUUID is required"}},
		{"claim", corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}, []string{"v.persistentVolumeClaim.claimName: Required value"}},
		{"rbd", corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}}, []string{"v.rbd.monitors: Required value", "v.rbd.image: Required value"}},
		{"cinder", corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: &corev1.LocalObjectReference{}}}, []string{"v.cinder.volumeID: Required value", "v.cinder.secretRef.name: Required value"}},
		{"cephfs", corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{}}, []string{"v.cephfs.monitors: Required value"}},
		{"quobyte", corev1.VolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: "a"}}, []string{
			`v.quobyte.registry: Invalid value: "a": must be a host:port pair or multiple pairs separated by commas`, "v.quobyte.volume: Required value",
		}},
		{"fc", corev1.VolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"a"}, WWIDs: []string{"b"}}}, []string{
			`v.fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously`, "v.fc.lun: Required value: lun is required if targetWWNs is specified",
		}},
		{"flex", corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Options: map[string]string{"k8s.io/a": ""}}}, []string{
			"v.flexVolume.driver: Required value", `v.flexVolume.options[k8s.io/a]: Invalid value: "k8s.io/a": kubernetes.io and k8s.io namespaces are reserved`,
		}},
		{"azure file", corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{}}, []string{"v.azureFile.secretName: Required value", "v.azureFile.shareName: Required value"}},
		{"vsphere", corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}}, []string{"v.vsphereVolume.volumePath: Required value"}},
		{"photon", corev1.VolumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{}}, []string{"v.photonPersistentDisk.pdID: Required value"}},
		{"portworx", corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}}, []string{"v.portworxVolume.volumeID: Required value"}},
		{"azure disk", corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{Kind: new(corev1.AzureManagedDisk)}}, []string{
			"v.azureDisk.diskName: Required value", "v.azureDisk.diskURI: Required value",
			`v.azureDisk.diskURI: Unsupported value: "": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"`,
		}},
		{"storageos", corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: &corev1.LocalObjectReference{}}}, []string{"v.storageos.volumeName: Required value", "v.storageos.secretRef.name: Required value"}},
		{"scaleio", corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{}}, []string{"v.scaleIO.gateway: Required value", "v.scaleIO.system: Required value", "v.scaleIO.volumeName: Required value"}},
		{"csi", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: &corev1.LocalObjectReference{}}}, []string{"v.csi.driver: Required value", "v.csi.nodePublishSecretRef.name: Required value"}},
		{"good csi", corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "csi.example.com", NodePublishSecretRef: &name}}, nil},
		{"image", corev1.VolumeSource{Image: &corev1.ImageVolumeSource{PullPolicy: "Odd"}}, []string{
			"v.image.reference: Required value", `v.image.pullPolicy: Unsupported value: "Odd": supported values: "Always", "IfNotPresent", "Never"`,
		}},
		{"ephemeral", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: sized}}}, []string{
			"v.ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
		}},
		{"ephemeral without", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}, []string{"v.ephemeral.volumeClaimTemplate: Required value"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errs := Volume(&corev1.Volume{Name: "data", VolumeSource: tc.source}, "web", field.NewPath("v"))
			if tc.name == "azure disk" {
				errortest.Contain(t, errs, tc.want...)
				return
			}
			errortest.Exactly(t, errs, tc.want...)
		})
	}
	long := &corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: sized}}}}
	errortest.Contain(t, Volume(long, strings.Repeat("p", 253), field.NewPath("v")), `v.name: Invalid value: "data": PVC name "ppp`)
}
