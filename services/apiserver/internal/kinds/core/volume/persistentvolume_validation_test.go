package volume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const (
	badSubdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	badLabel     = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
)

type pv = *corev1.PersistentVolume

func newVolume() pv {
	v := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v", ResourceVersion: "1"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				CSI: &corev1.CSIPersistentVolumeSource{Driver: "csi.example.com", VolumeHandle: "h"},
			},
		},
	}
	defaultPersistentVolume(v)
	return v
}

// of sets another source of a volume.
func of(source corev1.PersistentVolumeSource) func(pv) {
	return func(v pv) { v.Spec.PersistentVolumeSource = source }
}

func affinity(keys ...string) *corev1.VolumeNodeAffinity {
	var term corev1.NodeSelectorTerm
	for _, key := range keys {
		term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}})
	}
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
}

func TestPersistentVolume(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(pv)
		want   []string
	}{
		"fine":             {change: func(pv) {}},
		"a bad name":       {change: func(v pv) { v.Name = "A" }, want: []string{`metadata.name: Invalid value: "A": ` + badSubdomain}},
		"a namespace":      {change: func(v pv) { v.Namespace = "ns" }, want: []string{"metadata.namespace: Forbidden: not allowed on this type"}},
		"no modes":         {change: func(v pv) { v.Spec.AccessModes = nil }, want: []string{"spec.accessModes: Required value"}},
		"an unknown mode":  {change: func(v pv) { v.Spec.AccessModes[0] = "Odd" }, want: []string{`spec.accessModes: Unsupported value: "Odd": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`}},
		"one pod and more": {change: func(v pv) { v.Spec.AccessModes = append(v.Spec.AccessModes, corev1.ReadWriteOncePod) }, want: []string{"spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes"}},
		"no capacity": {change: func(v pv) { v.Spec.Capacity = nil }, want: []string{
			"spec.capacity: Required value", `spec.capacity: Unsupported value: null: supported values: "storage"`,
		}},
		"another capacity": {
			change: func(v pv) { v.Spec.Capacity["cpu"] = resource.MustParse("1") },
			want:   []string{`spec.capacity: Unsupported value: {"cpu":"1","storage":"1Gi"}: supported values: "storage"`},
		},
		"a negative capacity": {
			change: func(v pv) { v.Spec.Capacity["storage"] = resource.MustParse("-1") },
			want: []string{
				"spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity",
				`spec.capacity[storage]: Invalid value: "-1": must be greater than zero`,
			},
		},
		"an unknown policy": {
			change: func(v pv) { v.Spec.PersistentVolumeReclaimPolicy = "Odd" },
			want:   []string{`spec.persistentVolumeReclaimPolicy: Unsupported value: "Odd": supported values: "Delete", "Recycle", "Retain"`},
		},
		"an unknown volume mode": {
			change: func(v pv) { v.Spec.VolumeMode = new(corev1.PersistentVolumeMode("Odd")) },
			want:   []string{`spec.volumeMode: Unsupported value: "Odd": supported values: "Block", "Filesystem"`},
		},
		"a bad class":   {change: func(v pv) { v.Spec.StorageClassName = "A" }, want: []string{`spec.storageClassName: Invalid value: "A": ` + badSubdomain}},
		"attributes":    {change: func(v pv) { v.Spec.VolumeAttributesClassName = new("gold") }},
		"no attributes": {change: func(v pv) { v.Spec.VolumeAttributesClassName = new("") }, want: []string{"spec.volumeAttributesClassName: Required value: an empty string is disallowed"}},
		"attributes of another kind": {
			change: func(v pv) {
				v.Spec.VolumeAttributesClassName = new("A")
				v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"}}
			},
			want: []string{
				`spec.volumeAttributesClassName: Invalid value: "A": ` + badSubdomain,
				"spec.csi: Required value: has to be specified when using volumeAttributesClassName",
			},
		},
		"no nodes": {change: func(v pv) { v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{} }, want: []string{"spec.nodeAffinity.required: Required value: must specify required node constraints"}},
		"no terms": {
			change: func(v pv) { v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{}} },
			want:   []string{"spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term"},
		},
		"no source": {change: of(corev1.PersistentVolumeSource{}), want: []string{"spec: Required value: must specify a volume type"}},
		"three sources": {
			change: func(v pv) {
				v.Spec.NFS, v.Spec.CephFS = &corev1.NFSVolumeSource{Server: "s", Path: "/p"}, &corev1.CephFSPersistentVolumeSource{}
			},
			want: []string{"spec.cephFS: Forbidden: may not specify more than 1 volume type", "spec.csi: Forbidden: may not specify more than 1 volume type"},
		},
		"the root, recycled": {
			change: func(v pv) {
				v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRecycle
				v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "//"}}
			},
			want: []string{"spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"},
		},
		"mount options": {
			change: func(v pv) { v.Annotations = map[string]string{corev1.MountOptionAnnotation: "ro"} },
			want:   []string{"metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type"},
		},
		"mount options of NFS": {change: func(v pv) {
			v.Annotations = map[string]string{corev1.MountOptionAnnotation: "ro"}
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"}}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume()
			tc.change(v)
			errortest.Exactly(t, validatePersistentVolume(v), tc.want...)
		})
	}
}

func TestPersistentVolumeUpdate(t *testing.T) {
	for name, tc := range map[string]struct {
		old, change func(pv)
		want        []string
	}{
		"nothing":           {},
		"allowed changes":   {change: func(v pv) { v.Spec.ClaimRef = &corev1.ObjectReference{Name: "c"}; v.Spec.StorageClassName = "other" }},
		"its source":        {change: func(v pv) { v.Spec.CSI.VolumeHandle = "other" }, want: []string{"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"}},
		"a secret to grow":  {change: func(v pv) { v.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Name: "s", Namespace: "ns"} }},
		"its mode":          {change: func(v pv) { v.Spec.VolumeMode = new(corev1.PersistentVolumeBlock) }, want: []string{`volumeMode: Invalid value: "Block": field is immutable`}},
		"nodes, once":       {change: func(v pv) { v.Spec.NodeAffinity = affinity("x") }},
		"other nodes":       {old: func(v pv) { v.Spec.NodeAffinity = affinity("x") }, change: func(v pv) { v.Spec.NodeAffinity = affinity("y") }, want: []string{`nodeAffinity: Invalid value: {"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"y","operator":"In","values":["a"]}]}]}}: field is immutable`}},
		"no nodes any more": {old: func(v pv) { v.Spec.NodeAffinity = affinity("x") }, change: func(v pv) { v.Spec.NodeAffinity = nil }, want: []string{`nodeAffinity: Invalid value: null: field is immutable`}},
		"newer labels": {
			old: func(v pv) {
				v.Spec.NodeAffinity = affinity("failure-domain.beta.kubernetes.io/zone", "beta.kubernetes.io/os")
			},
			change: func(v pv) { v.Spec.NodeAffinity = affinity("topology.kubernetes.io/zone", "kubernetes.io/os") },
		},
		"an older label": {
			old:    func(v pv) { v.Spec.NodeAffinity = affinity("topology.kubernetes.io/zone") },
			change: func(v pv) { v.Spec.NodeAffinity = affinity("failure-domain.beta.kubernetes.io/zone") },
			want:   []string{`nodeAffinity: Invalid value: {"required":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"failure-domain.beta.kubernetes.io/zone","operator":"In","values":["a"]}]}]}}: field is immutable`},
		},
		"attributes":       {change: func(v pv) { v.Spec.VolumeAttributesClassName = new("gold") }},
		"other attributes": {old: func(v pv) { v.Spec.VolumeAttributesClassName = new("gold") }, change: func(v pv) { v.Spec.VolumeAttributesClassName = new("silver") }},
		"no attributes": {
			old: func(v pv) { v.Spec.VolumeAttributesClassName = new("gold") }, change: func(v pv) { v.Spec.VolumeAttributesClassName = nil },
			want: []string{"spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			old := newVolume()
			if tc.old != nil {
				tc.old(old)
			}
			v := old.DeepCopy()
			if tc.change != nil {
				tc.change(v)
			}
			errs := validatePersistentVolumeUpdate(v, old)
			for i := range errs {
				// The difference is on lines of its own.
				errs[i].Detail, _, _ = strings.Cut(errs[i].Detail, "\n")
			}
			errortest.Exactly(t, errs, tc.want...)
		})
	}
	v := newVolume()
	v.Spec.CSI.VolumeHandle = "other"
	if errs := validatePersistentVolumeUpdate(v, newVolume()); len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden || !strings.Contains(errs[0].Detail, "other") {
		t.Errorf("got errors %v, want the difference", errs)
	}
	v.ResourceVersion = ""
	errortest.Exactly(t, validatePersistentVolumeStatus(v, newVolume()),
		"metadata.resourceVersion: Invalid value: \"\": must be specified for an update", "resourceVersion: Required value")
}

func TestSources(t *testing.T) {
	long := strings.Repeat("x", 64)
	for name, tc := range map[string]struct {
		source corev1.PersistentVolumeSource
		want   []string
	}{
		"a host's path": {corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/a/../b"}}, []string{`spec.hostPath.path: Invalid value: "/a/../b": must not contain '..'`}},
		"gce": {corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{Partition: 256}}, []string{
			"spec.persistentDisk.pdName: Required value", "spec.persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive",
		}},
		"aws": {corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{Partition: -1}}, []string{
			"spec.awsElasticBlockStore.volumeID: Required value", "spec.awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive",
		}},
		"glusterfs": {corev1.PersistentVolumeSource{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsNamespace: new("")}}, []string{
			"spec.glusterfs.endpoints: Required value", "spec.glusterfs.path: Required value",
			`spec.glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a valid namespace name`,
		}},
		"glusterfs of a namespace": {corev1.PersistentVolumeSource{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsName: "e", Path: "p", EndpointsNamespace: new("A")}}, []string{
			`spec.glusterfs.endpointsNamespace: Invalid value: "A": ` + badLabel,
		}},
		"flocker of none": {corev1.PersistentVolumeSource{Flocker: &corev1.FlockerVolumeSource{}}, []string{"spec.flocker: Required value: one of datasetName and datasetUUID is required"}},
		"flocker of both": {corev1.PersistentVolumeSource{Flocker: &corev1.FlockerVolumeSource{DatasetName: "a/b", DatasetUUID: "u"}}, []string{
			`spec.flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously`,
			`spec.flocker.datasetName: Invalid value: "a/b": must not contain '/'`,
		}},
		"nfs": {corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}, []string{
			"spec.nfs.server: Required value", "spec.nfs.path: Required value", `spec.nfs.path: Invalid value: "": must be an absolute path`,
		}},
		"rbd":            {corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{}}, []string{"spec.rbd.monitors: Required value", "spec.rbd.image: Required value"}},
		"quobyte":        {corev1.PersistentVolumeSource{Quobyte: &corev1.QuobyteVolumeSource{}}, []string{"spec.quobyte.registry: Required value: must be a host:port pair or multiple pairs separated by commas", "spec.quobyte.volume: Required value"}},
		"quobyte's pair": {corev1.PersistentVolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: "a:1,b", Volume: "v"}}, []string{`spec.quobyte.registry: Invalid value: "a:1,b": must be a host:port pair or multiple pairs separated by commas`}},
		"quobyte's tenant": {corev1.PersistentVolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: "a:1", Volume: "v", Tenant: long + "x"}}, []string{
			"spec.quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters",
		}},
		"cephfs": {corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{}}, []string{"spec.cephfs.monitors: Required value"}},
		"iscsi": {corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{Lun: 256, SessionCHAPAuth: true}}, []string{
			"spec.iscsi.targetPortal: Required value", "spec.iscsi.iqn: Required value",
			"spec.iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive", "spec.iscsi.secretRef: Required value",
		}},
		"iscsi's names": {corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: long, IQN: "iqn.2015", InitiatorName: new("odd"), SecretRef: &corev1.SecretReference{}}}, []string{
			`spec.iscsi.targetportal: Invalid value: "` + long + `": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.`,
			`spec.iscsi.iqn: Invalid value: "iqn.2015": must be valid format`, "spec.iscsi.secretRef.name: Required value",
			`spec.iscsi.initiatorname: Invalid value: "odd": must be valid format`,
		}},
		"iscsi, fine": {corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
			TargetPortal: "127.0.0.1", IQN: "eui.0123456789abcdef", InitiatorName: new("iqn.2015-02.example.com:init"),
		}}, nil},
		"cinder": {corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: &corev1.SecretReference{}}}, []string{
			"spec.cinder.volumeID: Required value", "spec.cinder.secretRef.name: Required value", "spec.cinder.secretRef.namespace: Required value",
		}},
		"fc of none":    {corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{}}, []string{"spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"}},
		"fc of both":    {corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"a"}, WWIDs: []string{"b"}}}, []string{`spec.fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously`, "spec.fc.lun: Required value: lun is required if targetWWNs is specified"}},
		"fc's number":   {corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"a"}, Lun: new(int32(256))}}, []string{"spec.fc.lun: Invalid value: 256: must be between 0 and 255, inclusive"}},
		"flex":          {corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Options: map[string]string{"x.K8s.io/y": "", "fine": ""}}}, []string{"spec.flexVolume.driver: Required value", `spec.flexVolume.options[x.K8s.io/y]: Invalid value: "x.K8s.io/y": kubernetes.io and k8s.io namespaces are reserved`}},
		"azure's file":  {corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretNamespace: new("")}}, []string{"spec.azureFile.secretName: Required value", "spec.azureFile.shareName: Required value", "spec.azureFile.secretNamespace: Required value"}},
		"azure's disk":  {corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{CachingMode: new(corev1.AzureDataDiskCachingMode("Odd")), Kind: new(corev1.AzureManagedDisk)}}, []string{"spec.azureDisk.diskName: Required value", "spec.azureDisk.diskURI: Required value", `spec.azureDisk.cachingMode: Unsupported value: "Odd": supported values: "None", "ReadOnly", "ReadWrite"`, `spec.azureDisk.diskURI: Unsupported value: "": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"`}},
		"azure's kinds": {corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: "https://x", Kind: new(corev1.AzureDataDiskKind("Odd"))}}, []string{`spec.azureDisk.kind: Unsupported value: "Odd": supported values: "Dedicated", "Managed", "Shared"`}},
		"vsphere":       {corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}}, []string{"spec.vsphereVolume.volumePath: Required value"}},
		"photon":        {corev1.PersistentVolumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{}}, []string{"spec.photonPersistentDisk.pdID: Required value"}},
		"portworx":      {corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}}, []string{"spec.portworxVolume.volumeID: Required value"}},
		"scaleIO":       {corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{}}, []string{"spec.scaleIO.gateway: Required value", "spec.scaleIO.system: Required value", "spec.scaleIO.volumeName: Required value"}},
		"local":         {corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{}}, []string{"spec.local.path: Required value", "spec.nodeAffinity: Required value: Local volume requires node affinity"}},
		"local, back":   {corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "../x"}}, []string{`spec.local.path: Invalid value: "../x": must not contain '..'`, "spec.nodeAffinity: Required value: Local volume requires node affinity"}},
		"storageos":     {corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{VolumeNamespace: "A", SecretRef: &corev1.ObjectReference{}}}, []string{"spec.storageos.volumeName: Required value", `spec.storageos.volumeNamespace: Invalid value: "A": ` + badLabel, "spec.storageos.secretRef.name: Required value", "spec.storageos.secretRef.namespace: Required value"}},
		"csi":           {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{NodeExpandSecretRef: &corev1.SecretReference{Name: "A", Namespace: "B"}, ControllerPublishSecretRef: &corev1.SecretReference{}}}, []string{"spec.csi.driver: Required value", "spec.csi.volumeHandle: Required value", "spec.csi.controllerPublishSecretRef.name: Required value", "spec.csi.controllerPublishSecretRef.namespace: Required value", `spec.csi.nodeExpandSecretRef.name: Invalid value: "A": ` + badSubdomain, `spec.csi.nodeExpandSecretRef.namespace: Invalid value: "B": ` + badLabel}},
		"csi's driver":  {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "_" + long, VolumeHandle: "h"}}, []string{"spec.csi.driver: Too long: may not be more than 63 bytes", `spec.csi.driver: Invalid value: "_` + long + `": ` + badSubdomain}},
	} {
		t.Run(name, func(t *testing.T) {
			v := newVolume()
			of(tc.source)(v)
			errortest.Exactly(t, validatePersistentVolume(v), tc.want...)
		})
	}
}
