package storage

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestStorageCapacity(t *testing.T) {
	newCapacity := func() *storagev1.CSIStorageCapacity {
		return &storagev1.CSIStorageCapacity{ObjectMeta: metav1.ObjectMeta{Name: "x", Namespace: "ns", ResourceVersion: "1"}, StorageClassName: "fast"}
	}
	errortest.Exactly(t, validateStorageCapacity(newCapacity()))
	bad := newCapacity()
	bad.StorageClassName, bad.Capacity = "A", new(resource.MustParse("-1"))
	bad.NodeTopology = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "_"}}
	errortest.Exactly(t, validateStorageCapacity(bad),
		`nodeTopology.matchLabels: Invalid value: "_": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		`storageClassName: Invalid value: "A": `+badSubdomain, `capacity: Invalid value: "-1": must be greater than or equal to 0`)
	changed := newCapacity()
	changed.StorageClassName, changed.Capacity, changed.MaximumVolumeSize = "slow", new(resource.MustParse("1")), new(resource.MustParse("1"))
	changed.NodeTopology = &metav1.LabelSelector{}
	errortest.Exactly(t, validateStorageCapacityUpdate(changed, newCapacity()),
		"nodeTopology: Invalid value: {}: field is immutable", `storageClassName: Invalid value: "slow": field is immutable`)
}
