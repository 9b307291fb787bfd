package storage

import (
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// VolumeAttributesClass defines the kind VolumeAttributesClass.
func VolumeAttributesClass() *kinds.Definition {
	return kinds.Of[*storagev1.VolumeAttributesClass]{
		Columns:       volumeAttributesClassColumns(),
		Level:         kinds.Full,
		Validate:      validateVolumeAttributesClass,
		Update:        kinds.ChangeOf[*storagev1.VolumeAttributesClass]{Validate: validateVolumeAttributesClassUpdate},
		ReturnDeleted: true,
	}.Definition()
}

func volumeAttributesClassColumns() *columns.Layout {
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(), columns.Text("DriverName", storagev1.VolumeAttributesClass{}.SwaggerDoc()["driverName"]), columns.Age(),
	}, func(c *storagev1.VolumeAttributesClass, now time.Time) []any {
		return []any{c.Name, c.DriverName, columns.AgeOf(c, now)}
	})
}
