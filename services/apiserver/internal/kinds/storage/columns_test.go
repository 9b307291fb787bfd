package storage

import (
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	driver := []string{"Name", "AttachRequired", "PodInfoOnMount", "StorageCapacity", "TokenRequests", "RequiresRepublish", "Modes", "Age"}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{
			"storage class", StorageClass(), &storagev1.StorageClass{
				ObjectMeta: metav1.ObjectMeta{
					Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute), Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
				},
				Provisioner: "example.com/p", AllowVolumeExpansion: new(true),
			},
			[]string{"Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"},
			[]any{"one (default)", "example.com/p", "Delete", "Immediate", true, "5m"},
		},
		{"bare driver", CSIDriver(), &storagev1.CSIDriver{ObjectMeta: meta}, driver, []any{"one", true, false, false, "<unset>", false, "<none>", "5m"}},
		{
			"driver", CSIDriver(), &storagev1.CSIDriver{ObjectMeta: meta, Spec: storagev1.CSIDriverSpec{
				AttachRequired: new(false), PodInfoOnMount: new(true), StorageCapacity: new(true), RequiresRepublish: new(true),
				TokenRequests:        []storagev1.TokenRequest{{Audience: "a"}, {Audience: "b"}},
				VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{"Persistent", "Ephemeral"},
			}},
			driver, []any{"one", false, true, true, "a,b", true, "Persistent,Ephemeral", "5m"},
		},
		{
			"node's drivers", CSINode(), &storagev1.CSINode{ObjectMeta: meta, Spec: storagev1.CSINodeSpec{Drivers: make([]storagev1.CSINodeDriver, 2)}},
			[]string{"Name", "Drivers", "Age"}, []any{"one", int64(2), "5m"},
		},
		{
			"capacity", CSIStorageCapacity(), &storagev1.CSIStorageCapacity{ObjectMeta: meta, StorageClassName: "fast"},
			[]string{"Name", "Created At"}, []any{"one", meta.CreationTimestamp.UTC().Format(time.RFC3339)},
		},
		{
			"attachment", VolumeAttachment(), &storagev1.VolumeAttachment{
				ObjectMeta: meta, Status: storagev1.VolumeAttachmentStatus{Attached: true},
				Spec: storagev1.VolumeAttachmentSpec{Attacher: "csi", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}},
			},
			[]string{"Name", "Attacher", "PV", "Node", "Attached", "Age"}, []any{"one", "csi", "pv", "n", true, "5m"},
		},
		{
			"attributes class", VolumeAttributesClass(), &storagev1.VolumeAttributesClass{ObjectMeta: meta, DriverName: "csi"},
			[]string{"Name", "DriverName", "Age"}, []any{"one", "csi", "5m"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
