package strategy

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volume"
)

func persistentVolume() *kinds.Definition {
	type pv = *corev1.PersistentVolume
	return of[pv]{
		Level:   kinds.Full,
		Default: defaults.PersistentVolume,
		Create: func(v pv) {
			now := metav1.Now().Rfc3339Copy()
			v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
		},
		Validate: volume.PersistentVolume,
		Update: change[pv]{
			Prepare:  func(v, old pv) { v.Status = *old.Status.DeepCopy() },
			Validate: volume.PersistentVolumeUpdate,
		},
		Subresources: map[string]change[pv]{"status": {
			Prepare: func(v, old pv) {
				v.Spec = *old.Spec.DeepCopy()
				stampPhase(&v.Status, &old.Status)
			},
			Validate: volume.PersistentVolumeStatus,
		}},
		Warnings:    persistentVolumeWarnings,
		FieldLabels: []string{"name"},
		Fields:      func(v pv) fields.Set { return fields.Set{"name": v.Name} },

		ReturnDeleted: true,
	}.strategy()
}

// stampPhase records when a volume's phase changes, unless the update contains a time.
func stampPhase(status, old *corev1.PersistentVolumeStatus) {
	since := status.LastPhaseTransitionTime
	switch {
	case status.Phase == old.Phase && since == nil:
		status.LastPhaseTransitionTime = old.LastPhaseTransitionTime.DeepCopy()
	case status.Phase != old.Phase && (since == nil || since.Equal(old.LastPhaseTransitionTime)):
		now := metav1.Now().Rfc3339Copy()
		status.LastPhaseTransitionTime = &now
	}
}

// persistentVolumeWarnings warns about deprecated parts of a volume.
func persistentVolumeWarnings(v *corev1.PersistentVolume) []string {
	var warnings []string
	if _, ok := v.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		warnings = append(warnings, fmt.Sprintf(`metadata.annotations[%s]: deprecated since v1.8; use "storageClassName" attribute instead`, corev1.BetaStorageClassAnnotation))
	}
	if v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		warnings = append(warnings, "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.")
	}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		for i, term := range a.Required.NodeSelectorTerms {
			for j, expression := range term.MatchExpressions {
				if msg, ok := renamedLabels()[expression.Key]; ok {
					warnings = append(warnings, fmt.Sprintf("spec.nodeAffinity.required.nodeSelectorTerms[%d].matchExpressions[%d].key: %s is %s", i, j, expression.Key, msg))
				}
			}
		}
	}
	for _, gone := range []struct {
		used  bool
		field string
		since string
	}{
		{v.Spec.CephFS != nil, "cephfs", "deprecated in v1.28, non-functional in v1.31+"},
		{v.Spec.PhotonPersistentDisk != nil, "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"},
		{v.Spec.ScaleIO != nil, "scaleIO", "deprecated in v1.16, non-functional in v1.22+"},
		{v.Spec.StorageOS != nil, "storageOS", "deprecated in v1.22, non-functional in v1.25+"},
		{v.Spec.Glusterfs != nil, "glusterfs", "deprecated in v1.25, non-functional in v1.26+"},
		{v.Spec.RBD != nil, "rbd", "deprecated in v1.28, non-functional in v1.31+"},
	} {
		if gone.used {
			warnings = append(warnings, "spec."+gone.field+": "+gone.since)
		}
	}
	return warnings
}

// renamedLabels returns the deprecated node labels, with the text of the warning.
func renamedLabels() map[string]string {
	return map[string]string{
		"beta.kubernetes.io/arch": "deprecated since v1.14; use \"kubernetes.io/arch\" instead",
		"beta.kubernetes.io/os":   "deprecated since v1.14; use \"kubernetes.io/os\" instead",

		corev1.LabelFailureDomainBetaRegion: "deprecated since v1.17; use \"topology.kubernetes.io/region\" instead",
		corev1.LabelFailureDomainBetaZone:   "deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead",
		corev1.LabelInstanceType:            "deprecated since v1.17; use \"node.kubernetes.io/instance-type\" instead",
	}
}

func volumeAttachment() *kinds.Definition {
	type attachment = *storagev1.VolumeAttachment
	return of[attachment]{
		Level:    kinds.Full,
		Default:  defaults.VolumeAttachment,
		Create:   func(a attachment) { a.Status = storagev1.VolumeAttachmentStatus{} },
		Validate: volume.Attachment,
		Update: change[attachment]{
			Prepare:  func(a, old attachment) { a.Status = *old.Status.DeepCopy() },
			Validate: volume.AttachmentUpdate,
		},
		Subresources: map[string]change[attachment]{"status": {
			Prepare: func(a, old attachment) {
				a.Spec = *old.Spec.DeepCopy()
				keepMetadata(a, old)
			},
			Validate: volume.AttachmentUpdate,
		}},
		ConditionalUpdate: true,
		ReturnDeleted:     true,
	}.strategy()
}

func csiDriver() *kinds.Definition {
	type driver = *storagev1.CSIDriver
	return of[driver]{
		Level:    kinds.Full,
		Default:  defaults.CSIDriver,
		Validate: volume.Driver,
		Update: change[driver]{
			Prepare: func(d, old driver) {
				now, was := &d.Spec, &old.Spec
				if !apiequality.Semantic.DeepEqual(now.TokenRequests, was.TokenRequests) ||
					!apiequality.Semantic.DeepEqual(now.RequiresRepublish, was.RequiresRepublish) ||
					!apiequality.Semantic.DeepEqual(now.SELinuxMount, was.SELinuxMount) ||
					!apiequality.Semantic.DeepEqual(now.NodeAllocatableUpdatePeriodSeconds, was.NodeAllocatableUpdatePeriodSeconds) ||
					!apiequality.Semantic.DeepEqual(now.ServiceAccountTokenInSecrets, was.ServiceAccountTokenInSecrets) ||
					!apiequality.Semantic.DeepEqual(now.PreventPodSchedulingIfMissing, was.PreventPodSchedulingIfMissing) {
					d.Generation = old.Generation + 1
				}
			},
			Validate: volume.DriverUpdate,
		},
		ConditionalUpdate: true,
		ReturnDeleted:     true,
	}.strategy()
}

func csiNode() *kinds.Definition {
	return of[*storagev1.CSINode]{
		Level:             kinds.Full,
		Validate:          volume.Node,
		Update:            change[*storagev1.CSINode]{Validate: volume.NodeUpdate},
		ConditionalUpdate: true,
		ReturnDeleted:     true,
	}.strategy()
}

func csiStorageCapacity() *kinds.Definition {
	return of[*storagev1.CSIStorageCapacity]{
		Level:             kinds.Full,
		Validate:          volume.StorageCapacity,
		Update:            change[*storagev1.CSIStorageCapacity]{Validate: volume.StorageCapacityUpdate},
		Warnings:          storageCapacityWarnings,
		ConditionalUpdate: true,
	}.strategy()
}

// storageCapacityWarnings warns about deprecated node labels.
func storageCapacityWarnings(c *storagev1.CSIStorageCapacity) []string {
	if c.NodeTopology == nil {
		return nil
	}
	var warnings []string
	for i, expression := range c.NodeTopology.MatchExpressions {
		if msg, ok := renamedLabels()[expression.Key]; ok {
			warnings = append(warnings, fmt.Sprintf("nodeTopology.matchExpressions[%d].key: %s is %s", i, expression.Key, msg))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.NodeTopology.MatchLabels)) {
		if msg, ok := renamedLabels()[key]; ok {
			warnings = append(warnings, fmt.Sprintf("nodeTopology.matchLabels.%s: %s", key, msg))
		}
	}
	return warnings
}

func volumeAttributesClass() *kinds.Definition {
	return of[*storagev1.VolumeAttributesClass]{
		Level:         kinds.Full,
		Validate:      validation.VolumeAttributesClass,
		Update:        change[*storagev1.VolumeAttributesClass]{Validate: validation.VolumeAttributesClassUpdate},
		ReturnDeleted: true,
	}.strategy()
}
