package strategy

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation"
)

// snapshots is the API group of the one custom data source that the field dataSource supports.
const snapshots = "snapshot.storage.k8s.io"

func persistentVolumeClaim() *kinds.Definition {
	type claim = *corev1.PersistentVolumeClaim
	return of[claim]{
		Level:   kinds.Full,
		Default: defaults.PersistentVolumeClaim,
		Create: func(c claim) {
			c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
			dropSources(&c.Spec, nil)
			alignSources(&c.Spec)
		},
		Validate: validation.PersistentVolumeClaim,
		Update: change[claim]{
			Prepare: func(c, old claim) {
				c.Status = *old.Status.DeepCopy()
				dropSources(&c.Spec, &old.Spec)
				// The two fields of an old claim must agree as well.
				alignSources(&c.Spec)
			},
			Validate: func(c, old claim) field.ErrorList {
				aligned := old.DeepCopy()
				alignSources(&aligned.Spec)
				return validation.PersistentVolumeClaimUpdate(c, aligned)
			},
		},
		Subresources: map[string]change[claim]{"status": {
			Prepare:  func(c, old claim) { c.Spec = *old.Spec.DeepCopy() },
			Validate: validation.PersistentVolumeClaimStatus,
		}},
		Warnings:      claimWarnings,
		ReturnDeleted: true,
	}.strategy()
}

// dropSources drops what this API does not serve, unless old has it: a reference to another
// namespace, and a dataSource of an unknown kind without a dataSourceRef.
func dropSources(spec, old *corev1.PersistentVolumeClaimSpec) {
	if ref := spec.DataSourceRef; ref != nil && ref.Namespace != nil && *ref.Namespace != "" && (old == nil || old.DataSourceRef == nil) {
		spec.DataSourceRef = nil
	}
	source := spec.DataSource
	if source == nil || spec.DataSourceRef != nil || old != nil && (old.DataSource != nil || old.DataSourceRef != nil) {
		return
	}
	group := ""
	if source.APIGroup != nil {
		group = *source.APIGroup
	}
	if (group != "" || source.Kind != "PersistentVolumeClaim") && (group != snapshots || source.Kind != "VolumeSnapshot") {
		spec.DataSource = nil
	}
}

// alignSources makes dataSource and the newer dataSourceRef agree.
func alignSources(spec *corev1.PersistentVolumeClaimSpec) {
	source, ref := spec.DataSource, spec.DataSourceRef
	switch {
	case source != nil && ref == nil:
		copied := source.DeepCopy()
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: copied.APIGroup, Kind: copied.Kind, Name: copied.Name}
	case source == nil && ref != nil && (ref.Namespace == nil || *ref.Namespace == ""):
		copied := ref.DeepCopy()
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: copied.APIGroup, Kind: copied.Kind, Name: copied.Name}
	}
}

func claimWarnings(c *corev1.PersistentVolumeClaim) []string {
	var warnings []string
	if _, ok := c.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		warnings = append(warnings, fmt.Sprintf("metadata.annotations[%s]: deprecated since v1.8; use \"storageClassName\" attribute instead", corev1.BetaStorageClassAnnotation))
	}
	for _, list := range []struct {
		name      string
		resources corev1.ResourceList
	}{{"requests", c.Spec.Resources.Requests}, {"limits", c.Spec.Resources.Limits}} {
		if size := list.resources[corev1.ResourceStorage]; size.MilliValue()%1000 != 0 {
			warnings = append(warnings, fmt.Sprintf("spec.resources.%s[storage]: fractional byte value %q is invalid, must be an integer", list.name, size.String()))
		}
	}
	return warnings
}

func storageClass() *kinds.Definition {
	return of[*storagev1.StorageClass]{
		Level:         kinds.Full,
		Default:       defaults.StorageClass,
		Validate:      validation.StorageClass,
		Update:        change[*storagev1.StorageClass]{Validate: validation.StorageClassUpdate},
		Warnings:      storageClassWarnings,
		ReturnDeleted: true,
	}.strategy()
}

// storageClassWarnings warns about deprecated node labels.
func storageClassWarnings(c *storagev1.StorageClass) []string {
	var warnings []string
	for i, term := range c.AllowedTopologies {
		for j, expression := range term.MatchLabelExpressions {
			if msg, ok := renamedLabels()[expression.Key]; ok {
				warnings = append(warnings, fmt.Sprintf("allowedTopologies[%d].matchLabelExpressions[%d].key: %s is %s", i, j, expression.Key, msg))
			}
		}
	}
	return warnings
}
