package volume

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// PersistentVolume defines the kind PersistentVolume.
func PersistentVolume() *kinds.Definition {
	type pv = *corev1.PersistentVolume
	return kinds.Of[pv]{
		Columns: persistentVolumeColumns(),
		Level:   kinds.Full,
		Default: defaultPersistentVolume,
		Create: func(v pv) {
			now := metav1.Now().Rfc3339Copy()
			v.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &now}
		},
		Validate: validatePersistentVolume,
		Update: kinds.ChangeOf[pv]{
			Prepare:  func(v, old pv) { v.Status = *old.Status.DeepCopy() },
			Validate: validatePersistentVolumeUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[pv]{"status": {
			Prepare: func(v, old pv) {
				v.Spec = *old.Spec.DeepCopy()
				stampPhase(&v.Status, &old.Status)
			},
			Validate: validatePersistentVolumeStatus,
		}},
		Warnings:    persistentVolumeWarnings,
		FieldLabels: []string{"name"},
		Fields:      func(v pv) fields.Set { return fields.Set{"name": v.Name} },

		ReturnDeleted: true,
	}.Definition()
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
				if msg := podtemplate.RenamedLabel(expression.Key); msg != "" {
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

// defaultPersistentVolume sets the defaults of a persistent volume and its source.
func defaultPersistentVolume(v *corev1.PersistentVolume) {
	kinds.FillString(&v.Status.Phase, corev1.VolumePending)
	kinds.FillString(&v.Spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	kinds.Fill(&v.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	podtemplate.RoundUp(v.Spec.Capacity)
	podtemplate.VolumeSource(&v.Spec.PersistentVolumeSource)
}

func persistentVolumeColumns() *columns.Layout {
	spec, status := corev1.PersistentVolumeSpec{}.SwaggerDoc(), corev1.PersistentVolumeStatus{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Capacity", spec["capacity"]),
		columns.Text("Access Modes", spec["accessModes"]),
		columns.Text("Reclaim Policy", spec["persistentVolumeReclaimPolicy"]),
		columns.Text("Status", status["phase"]),
		columns.Text("Claim", spec["claimRef"]),
		columns.Text("StorageClass", "StorageClass of the pv"),
		columns.Text("VolumeAttributesClass", "VolumeAttributesClass of the pv"),
		columns.Text("Reason", status["reason"]),
		columns.Age(),
		columns.Wide(columns.Text("VolumeMode", spec["volumeMode"])),
	}, func(v *corev1.PersistentVolume, now time.Time) []any {
		size, phase, claim := v.Spec.Capacity[corev1.ResourceStorage], string(v.Status.Phase), ""
		if v.DeletionTimestamp != nil {
			phase = "Terminating"
		}
		if ref := v.Spec.ClaimRef; ref != nil {
			claim = ref.Namespace + "/" + ref.Name
		}
		class, ok := v.Annotations[corev1.BetaStorageClassAnnotation]
		if !ok {
			class = v.Spec.StorageClassName
		}
		return []any{
			v.Name, size.String(), accessModes(v.Spec.AccessModes), string(v.Spec.PersistentVolumeReclaimPolicy), phase, claim,
			class, columns.Deref(v.Spec.VolumeAttributesClassName, columns.Unset), v.Status.Reason, columns.AgeOf(v, now), columns.Deref(v.Spec.VolumeMode, columns.Unset),
		}
	})
}
