package storage

import (
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
)

// CSIDriver defines the kind CSIDriver.
func CSIDriver() *kinds.Definition {
	type driver = *storagev1.CSIDriver
	return kinds.Of[driver]{
		Columns:  csiDriverColumns(),
		Level:    kinds.Full,
		Default:  defaultCSIDriver,
		Validate: validateDriver,
		Update: kinds.ChangeOf[driver]{
			Prepare: func(d, old driver) {
				if !apiequality.Semantic.DeepEqual(d.Spec, old.Spec) {
					d.Generation = old.Generation + 1
				}
			},
			Validate: validateDriverUpdate,
			Warnings: func(d, old driver) []string {
				if apiequality.Semantic.DeepEqual(d.Spec.TokenRequests, old.Spec.TokenRequests) {
					return nil
				}
				return csiDriverWarnings(d)
			},
		},
		Warnings:          csiDriverWarnings,
		ConditionalUpdate: true,
		ReturnDeleted:     true,
	}.Definition()
}

// csiDriverWarnings warns about tokens that a driver gets where it may log them.
func csiDriverWarnings(d *storagev1.CSIDriver) []string {
	if len(d.Spec.TokenRequests) == 0 || d.Spec.ServiceAccountTokenInSecrets != nil {
		return nil
	}
	return []string{"spec.serviceAccountTokenInSecrets is unset; " +
		"if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"}
}

// defaultCSIDriver sets the defaults of a CSI driver.
func defaultCSIDriver(d *storagev1.CSIDriver) {
	kinds.Fill(&d.Spec.AttachRequired, true)
	kinds.Fill(&d.Spec.PodInfoOnMount, false)
	kinds.Fill(&d.Spec.StorageCapacity, false)
	kinds.Fill(&d.Spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(d.Spec.VolumeLifecycleModes) == 0 {
		d.Spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	kinds.Fill(&d.Spec.RequiresRepublish, false)
	kinds.Fill(&d.Spec.SELinuxMount, false)
	kinds.Fill(&d.Spec.PreventPodSchedulingIfMissing, false)
}

func csiDriverColumns() *columns.Layout {
	doc := storagev1.CSIDriverSpec{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		boolean("AttachRequired", doc["attachRequired"]),
		boolean("PodInfoOnMount", doc["podInfoOnMount"]),
		boolean("StorageCapacity", doc["storageCapacity"]),
		columns.Text("TokenRequests", doc["tokenRequests"]),
		boolean("RequiresRepublish", doc["requiresRepublish"]),
		columns.Text("Modes", doc["volumeLifecycleModes"]),
		columns.Age(),
	}, func(d *storagev1.CSIDriver, now time.Time) []any {
		var modes []string
		for _, mode := range d.Spec.VolumeLifecycleModes {
			modes = append(modes, string(mode))
		}
		tokens := columns.Unset
		if d.Spec.TokenRequests != nil {
			var audiences []string
			for _, request := range d.Spec.TokenRequests {
				audiences = append(audiences, request.Audience)
			}
			tokens = strings.Join(audiences, ",")
		}
		return []any{
			d.Name, holds(d.Spec.AttachRequired, true), holds(d.Spec.PodInfoOnMount, false), holds(d.Spec.StorageCapacity, false),
			tokens, holds(d.Spec.RequiresRepublish, false), columns.OrNone(strings.Join(modes, ",")), columns.AgeOf(d, now),
		}
	})
}

// holds returns what p points to, or otherwise if p is nil.
func holds(p *bool, otherwise bool) bool {
	if p == nil {
		return otherwise
	}
	return *p
}
