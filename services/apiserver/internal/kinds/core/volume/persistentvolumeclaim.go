package volume

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// snapshots is the API group of the one custom data source that the field dataSource supports.
const snapshots = "snapshot.storage.k8s.io"

// PersistentVolumeClaim defines the kind PersistentVolumeClaim.
func PersistentVolumeClaim() *kinds.Definition {
	type claim = *corev1.PersistentVolumeClaim
	return kinds.Of[claim]{
		Columns: persistentVolumeClaimColumns(),
		Level:   kinds.Full,
		Default: DefaultPersistentVolumeClaim,
		Create: func(c claim) {
			c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
			dropSources(&c.Spec, nil)
			alignSources(&c.Spec)
		},
		Validate: validatePersistentVolumeClaim,
		Update: kinds.ChangeOf[claim]{
			Prepare: func(c, old claim) {
				c.Status = *old.Status.DeepCopy()
				dropSources(&c.Spec, &old.Spec)
				// The two fields of an old claim must agree as well.
				alignSources(&c.Spec)
			},
			Validate: func(c, old claim) field.ErrorList {
				aligned := old.DeepCopy()
				alignSources(&aligned.Spec)
				return validatePersistentVolumeClaimUpdate(c, aligned)
			},
		},
		Subresources: map[string]kinds.ChangeOf[claim]{"status": {
			Prepare: func(c, old claim) {
				c.Spec = *old.Spec.DeepCopy()
				if old.Status.HealthStatus == nil { // Kubernetes disables it by default.
					c.Status.HealthStatus = nil
				}
			},
			Validate: validatePersistentVolumeClaimStatus,
		}},
		Warnings:      claimWarnings,
		ReturnDeleted: true,
	}.Definition()
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

// DefaultPersistentVolumeClaim sets the defaults of a claim.
func DefaultPersistentVolumeClaim(c *corev1.PersistentVolumeClaim) {
	kinds.FillString(&c.Status.Phase, corev1.ClaimPending)
	podtemplate.ClaimSpec(&c.Spec)
	podtemplate.RoundUp(c.Status.Capacity)
	podtemplate.RoundUp(c.Status.AllocatedResources)
}

func persistentVolumeClaimColumns() *columns.Layout {
	spec, status := corev1.PersistentVolumeClaimSpec{}.SwaggerDoc(), corev1.PersistentVolumeClaimStatus{}.SwaggerDoc()
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		columns.Text("Status", status["phase"]),
		columns.Text("Volume", spec["volumeName"]),
		columns.Text("Capacity", status["capacity"]),
		columns.Text("Access Modes", status["accessModes"]),
		columns.Text("StorageClass", "StorageClass of the pvc"),
		columns.Text("VolumeAttributesClass", "VolumeAttributesClass of the pvc"),
		columns.Age(),
		columns.Wide(columns.Text("VolumeMode", spec["volumeMode"])),
	}, func(c *corev1.PersistentVolumeClaim, now time.Time) []any {
		phase, capacity, modes := string(c.Status.Phase), "", ""
		if c.DeletionTimestamp != nil {
			phase = "Terminating"
		}
		if c.Spec.VolumeName != "" {
			size := c.Status.Capacity[corev1.ResourceStorage]
			capacity, modes = size.String(), accessModes(c.Status.AccessModes)
		}
		class, ok := c.Annotations[corev1.BetaStorageClassAnnotation]
		if !ok {
			class = columns.Deref(c.Spec.StorageClassName, "")
		}
		return []any{
			c.Name, phase, c.Spec.VolumeName, capacity, modes, class,
			columns.Deref(c.Spec.VolumeAttributesClassName, columns.Unset), columns.AgeOf(c, now), columns.Deref(c.Spec.VolumeMode, columns.Unset),
		}
	})
}
