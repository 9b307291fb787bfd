package storage

import (
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// TestVolumeAttributesClass checks new and changed classes.
func TestVolumeAttributesClass(t *testing.T) {
	attributes := func() *storagev1.VolumeAttributesClass {
		return &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold", ResourceVersion: "1"}, DriverName: "csi.example.com", Parameters: map[string]string{"a": "b"}}
	}
	errortest.Exactly(t, validateVolumeAttributesClass(attributes()))
	errortest.Exactly(t, validateVolumeAttributesClass(&storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: "gold"}}),
		"driverName: Required value", "parameters: Required value: must contain at least one key/value pair")
	other := attributes()
	other.DriverName, other.Parameters["a"] = "other.example.com", "c"
	errortest.Exactly(t, validateVolumeAttributesClassUpdate(other, attributes()),
		"driverName: Forbidden: updates to driverName are forbidden.", "parameters: Forbidden: updates to parameters are forbidden.")
}
