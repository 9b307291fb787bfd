package storage

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// StorageClass defines the kind StorageClass.
func StorageClass() *kinds.Definition {
	return kinds.Of[*storagev1.StorageClass]{
		Columns:       storageClassColumns(),
		Level:         kinds.Full,
		Default:       defaultStorageClass,
		Validate:      validateStorageClass,
		Update:        kinds.ChangeOf[*storagev1.StorageClass]{Validate: validateStorageClassUpdate},
		Warnings:      storageClassWarnings,
		ReturnDeleted: true,
	}.Definition()
}

// storageClassWarnings warns about deprecated node labels.
func storageClassWarnings(c *storagev1.StorageClass) []string {
	var warnings []string
	for i, term := range c.AllowedTopologies {
		for j, expression := range term.MatchLabelExpressions {
			if msg := podtemplate.RenamedLabel(expression.Key); msg != "" {
				warnings = append(warnings, fmt.Sprintf("allowedTopologies[%d].matchLabelExpressions[%d].key: %s is %s", i, j, expression.Key, msg))
			}
		}
	}
	return warnings
}

// defaultStorageClass sets the defaults of a storage class.
func defaultStorageClass(c *storagev1.StorageClass) {
	kinds.Fill(&c.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	kinds.Fill(&c.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

func storageClassColumns() *columns.Layout {
	doc := storagev1.StorageClass{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Provisioner", doc["provisioner"]),
		columns.Text("ReclaimPolicy", doc["reclaimPolicy"]),
		columns.Text("VolumeBindingMode", doc["volumeBindingMode"]),
		columns.Text("AllowVolumeExpansion", doc["allowVolumeExpansion"]),
		columns.Age(),
	}, func(c *storagev1.StorageClass, now time.Time) []any {
		name := c.Name
		if c.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" || c.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true" {
			name += " (default)"
		}
		return []any{
			name, c.Provisioner, columns.Deref(c.ReclaimPolicy, string(corev1.PersistentVolumeReclaimDelete)),
			columns.Deref(c.VolumeBindingMode, string(storagev1.VolumeBindingImmediate)),
			c.AllowVolumeExpansion != nil && *c.AllowVolumeExpansion, columns.AgeOf(c, now),
		}
	})
}
