package volume

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the columns and cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute)}
	gib := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	gone := metav1.ObjectMeta{
		Name: "one", CreationTimestamp: kindtest.Ago(5 * time.Minute), DeletionTimestamp: new(kindtest.Ago(0)),
		Annotations: map[string]string{corev1.BetaStorageClassAnnotation: "old"},
	}
	volume := []string{
		"Name", "Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass", "VolumeAttributesClass", "Reason", "Age", "VolumeMode*",
	}
	for _, tc := range []struct {
		name    string
		kind    *kinds.Definition
		obj     scheme.Object
		columns []string
		cells   []any
	}{
		{
			"pending claim", PersistentVolumeClaim(), &corev1.PersistentVolumeClaim{ObjectMeta: meta, Status: corev1.PersistentVolumeClaimStatus{Phase: "Pending"}},
			[]string{"Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age", "VolumeMode*"},
			[]any{"one", "Pending", "", "", "", "", "<unset>", "5m", "<unset>"},
		},
		{
			"bound claim", PersistentVolumeClaim(), &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Name: "one", DeletionTimestamp: new(kindtest.Ago(0)), CreationTimestamp: kindtest.Ago(5 * time.Minute)},
				Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "pv", StorageClassName: new("fast"), VolumeMode: new(corev1.PersistentVolumeBlock)},
				Status:     corev1.PersistentVolumeClaimStatus{Phase: "Bound", Capacity: gib, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteMany", "ReadWriteOnce", "ReadWriteMany"}},
			},
			[]string{"Name", "Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass", "Age", "VolumeMode*"},
			[]any{"one", "Terminating", "pv", "1Gi", "RWO,RWX", "fast", "<unset>", "5m", "Block"},
		},
		{
			"volume", PersistentVolume(), &corev1.PersistentVolume{
				ObjectMeta: meta,
				Spec: corev1.PersistentVolumeSpec{
					Capacity: gib, AccessModes: []corev1.PersistentVolumeAccessMode{"ReadWriteOnce", "ReadOnlyMany"},
					PersistentVolumeReclaimPolicy: "Retain", ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "c"}, StorageClassName: "fast",
					VolumeAttributesClassName: new("gold"), VolumeMode: new(corev1.PersistentVolumeBlock),
				},
				Status: corev1.PersistentVolumeStatus{Phase: "Failed", Reason: "Broken"},
			},
			volume, []any{"one", "1Gi", "RWO,ROX", "Retain", "Failed", "ns/c", "fast", "gold", "Broken", "5m", "Block"},
		},
		{
			"deleted volume", PersistentVolume(), &corev1.PersistentVolume{ObjectMeta: gone, Spec: corev1.PersistentVolumeSpec{StorageClassName: "new"}, Status: corev1.PersistentVolumeStatus{Phase: "Bound"}},
			volume, []any{"one", "0", "", "", "Terminating", "", "old", "<unset>", "", "5m", "<unset>"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Row(t, tc.kind, tc.obj, tc.columns, tc.cells) })
	}
}
