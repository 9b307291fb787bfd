package volume

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func meta() metav1.ObjectMeta { return metav1.ObjectMeta{Name: "x", ResourceVersion: "1"} }

func TestAttachment(t *testing.T) {
	type attachment = *storagev1.VolumeAttachment
	inline := func(spec corev1.PersistentVolumeSpec) func(attachment) {
		return func(a attachment) { a.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &spec} }
	}
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	newAttachment := func() attachment {
		return &storagev1.VolumeAttachment{ObjectMeta: meta(), Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.example.com", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")},
		}}
	}
	const inlined = "may not be specified in the context of inline volumes"
	for name, tc := range map[string]struct {
		change func(attachment)
		want   []string
	}{
		"fine":             {change: func(attachment) {}},
		"no attacher":      {change: func(a attachment) { a.Spec.Attacher = "" }, want: []string{"spec.attacher: Required value"}},
		"a bad node":       {change: func(a attachment) { a.Spec.NodeName = "A" }, want: []string{`spec.nodeName: Invalid value: "A": ` + badSubdomain}},
		"no source":        {change: func(a attachment) { a.Spec.Source.PersistentVolumeName = nil }, want: []string{"spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"}},
		"two sources":      {change: func(a attachment) { a.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{} }, want: []string{"spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"}},
		"a bad volume":     {change: func(a attachment) { a.Spec.Source.PersistentVolumeName = new("A") }, want: []string{`spec.source.persistentVolumeName: Invalid value: "A": ` + badSubdomain}},
		"an inline volume": {change: inline(corev1.PersistentVolumeSpec{AccessModes: modes, PersistentVolumeSource: csi})},
		"too much of an inline volume": {
			change: inline(corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{}, Capacity: corev1.ResourceList{"storage": resource.MustParse("1")}, AccessModes: modes,
				PersistentVolumeReclaimPolicy: "Delete", NodeAffinity: affinity("x"), StorageClassName: "s", VolumeMode: new(corev1.PersistentVolumeBlock),
				PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}},
			}),
			want: []string{
				"spec.source.inlineVolumeSpec.claimRef: Forbidden: " + inlined,
				"spec.source.inlineVolumeSpec.capacity: Forbidden: " + inlined,
				"spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
				"spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes",
				"spec.source.inlineVolumeSpec.nodeAffinity: Forbidden: " + inlined,
				"spec.source.inlineVolumeSpec.storageClassName: Forbidden: " + inlined,
				"spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes",
			},
		},
		"a long status": {
			change: func(a attachment) {
				a.Status.AttachmentMetadata = map[string]string{"k": strings.Repeat("x", 256<<10)}
				a.Status.AttachError = &storagev1.VolumeError{Message: strings.Repeat("x", 1025)}
				a.Status.DetachError = &storagev1.VolumeError{ErrorCode: new(int32(-1))}
			},
			want: []string{
				"status.attachmentMetadata: Too long: may not be more than 262144 bytes", "status.attachError.message: Too long: may not be more than 1024 bytes",
				"status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttachment()
			tc.change(a)
			errortest.Exactly(t, Attachment(a), tc.want...)
		})
	}
	changed := newAttachment()
	changed.Spec.NodeName = "other"
	errortest.Contain(t, AttachmentUpdate(changed, newAttachment()), "spec: Invalid value: ", "field is immutable")
	errortest.Exactly(t, AttachmentUpdate(newAttachment(), newAttachment()))
}

func TestDriver(t *testing.T) {
	type driver = *storagev1.CSIDriver
	newDriver := func() driver {
		d := &storagev1.CSIDriver{ObjectMeta: meta()}
		defaults.CSIDriver(d)
		return d
	}
	for name, tc := range map[string]struct {
		change func(driver)
		want   []string
	}{
		"fine": {change: func(driver) {}},
		"nothing": {change: func(d driver) { d.Spec = storagev1.CSIDriverSpec{} }, want: []string{
			"spec.attachedRequired: Required value", "spec.podInfoOnMount: Required value", "spec.storageCapacity: Required value",
			"spec.seLinuxMount: Required value", "spec.preventPodSchedulingIfMissing: Required value",
		}},
		"an unknown policy": {
			change: func(d driver) { d.Spec.FSGroupPolicy = new(storagev1.FSGroupPolicy("Odd")) },
			want:   []string{`spec.fsGroupPolicy: Unsupported value: "Odd": supported values: "File", "None", "ReadWriteOnceWithFSType"`},
		},
		"tokens": {
			change: func(d driver) {
				d.Spec.TokenRequests = []storagev1.TokenRequest{
					{Audience: "a", ExpirationSeconds: new(int64(599))}, {Audience: "b", ExpirationSeconds: new(int64(1<<32 + 1))}, {Audience: "a"},
				}
			},
			want: []string{
				"spec.tokenRequests[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes",
				"spec.tokenRequests[1].expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds",
				`spec.tokenRequests[2].audience: Duplicate value: "a"`,
			},
		},
		"an unknown mode": {
			change: func(d driver) { d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{"Odd"} },
			want:   []string{`spec.volumeLifecycleModes: Unsupported value: "Odd": supported values: "Persistent", "Ephemeral"`},
		},
		"a short period": {
			change: func(d driver) { d.Spec.NodeAllocatableUpdatePeriodSeconds = new(int64(9)) },
			want:   []string{"spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 9: must be greater than or equal to 10 seconds"},
		},
		"tokens in secrets": {
			change: func(d driver) { d.Spec.ServiceAccountTokenInSecrets = new(true) },
			want:   []string{"spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no tokenRequests are specified"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver()
			tc.change(d)
			errortest.Exactly(t, Driver(d), tc.want...)
		})
	}
	changed := newDriver()
	changed.Spec.AttachRequired, changed.Spec.VolumeLifecycleModes = new(false), []storagev1.VolumeLifecycleMode{"Ephemeral"}
	changed.Spec.PodInfoOnMount = new(true)
	errortest.Exactly(t, DriverUpdate(changed, newDriver()),
		"spec.attachedRequired: Invalid value: false: field is immutable", `spec.volumeLifecycleModes: Invalid value: ["Ephemeral"]: field is immutable`)
}

func TestNode(t *testing.T) {
	newNode := func(drivers ...storagev1.CSINodeDriver) *storagev1.CSINode {
		return &storagev1.CSINode{ObjectMeta: meta(), Spec: storagev1.CSINodeSpec{Drivers: drivers}}
	}
	driver := func(name string, keys ...string) storagev1.CSINodeDriver {
		return storagev1.CSINodeDriver{Name: name, NodeID: "id", TopologyKeys: keys}
	}
	errortest.Exactly(t, Node(newNode(driver("a", "example.com/zone"), driver("b"))))
	long := strings.Repeat("x", 257)
	errortest.Exactly(t, Node(newNode(
		storagev1.CSINodeDriver{Allocatable: &storagev1.VolumeNodeResources{Count: new(int32(-1))}}, storagev1.CSINodeDriver{Name: "a", NodeID: long}, driver("a", "k", "k", ""),
	)),
		"spec.drivers[0].name: Required value", "spec.drivers[0].nodeID: Required value",
		"spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
		`spec.drivers[1].nodeID: Invalid value: "`+long+`": must be 256 characters or less`,
		`spec.drivers[2].name: Duplicate value: "a"`, `spec.drivers[2]: Duplicate value: "k"`, "spec.drivers[2]: Required value",
		`spec.drivers[2]: Invalid value: "": name part must be non-empty`,
		`spec.drivers[2]: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`)
	counted := driver("a")
	counted.Allocatable = &storagev1.VolumeNodeResources{Count: new(int32(3))}
	errortest.Exactly(t, NodeUpdate(newNode(counted, driver("b")), newNode(driver("a"), driver("c"))))
	errortest.Exactly(t, NodeUpdate(newNode(driver("a", "k")), newNode(driver("a"))),
		`spec.drivers: Invalid value: {"name":"a","nodeID":"id","topologyKeys":["k"]}: field is immutable`)
}

func TestStorageCapacity(t *testing.T) {
	newCapacity := func() *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns", ResourceVersion: "1"}, StorageClassName: "fast"}
	}
	errortest.Exactly(t, StorageCapacity(newCapacity()))
	bad := newCapacity()
	bad.StorageClassName, bad.Capacity = "A", new(resource.MustParse("-1"))
	bad.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "_"}}
	errortest.Exactly(t, StorageCapacity(bad),
		`nodeTopology.matchLabels: Invalid value: "_": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		`storageClassName: Invalid value: "A": `+badSubdomain, `capacity: Invalid value: "-1": must be greater than or equal to 0`)
	changed := newCapacity()
	changed.StorageClassName, changed.Capacity, changed.MaximumVolumeSize = "slow", new(resource.MustParse("1")), new(resource.MustParse("1"))
	changed.NodeTopology = &metav1.LabelSelector{}
	errortest.Exactly(t, StorageCapacityUpdate(changed, newCapacity()),
		"nodeTopology: Invalid value: {}: field is immutable", `storageClassName: Invalid value: "slow": field is immutable`)
}
