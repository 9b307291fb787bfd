package storage

import (
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/columns"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
)

// VolumeAttachment defines the kind VolumeAttachment.
func VolumeAttachment() *kinds.Definition {
	type attachment = *storagev1.VolumeAttachment
	return kinds.Of[attachment]{
		Columns:  volumeAttachmentColumns(),
		Level:    kinds.Full,
		Default:  defaultVolumeAttachment,
		Create:   func(a attachment) { a.Status = storagev1.VolumeAttachmentStatus{} },
		Validate: validateAttachment,
		Update: kinds.ChangeOf[attachment]{
			Prepare:  func(a, old attachment) { a.Status = *old.Status.DeepCopy() },
			Validate: validateAttachmentUpdate,
		},
		Subresources: map[string]kinds.ChangeOf[attachment]{"status": {
			Prepare: func(a, old attachment) {
				a.Spec = *old.Spec.DeepCopy()
				kinds.KeepMetadata(a, old)
			},
			Validate: validateAttachmentUpdate,
		}},
		ConditionalUpdate: true,
		ReturnDeleted:     true,
	}.Definition()
}

// defaultVolumeAttachment sets the defaults of a volume source embedded in an attachment.
func defaultVolumeAttachment(a *storagev1.VolumeAttachment) {
	if inline := a.Spec.Source.InlineVolumeSpec; inline != nil {
		podtemplate.RoundUp(inline.Capacity)
		podtemplate.VolumeSource(&inline.PersistentVolumeSource)
	}
}

func volumeAttachmentColumns() *columns.Layout {
	spec := storagev1.VolumeAttachmentSpec{}.SwaggerDoc()
	attacher := columns.Text("Attacher", spec["attacher"])
	attacher.Format = "name"
	return columns.Of([]metav1.TableColumnDefinition{
		columns.Name(),
		attacher,
		columns.Text("PV", storagev1.VolumeAttachmentSource{}.SwaggerDoc()["persistentVolumeName"]),
		columns.Text("Node", spec["nodeName"]),
		boolean("Attached", storagev1.VolumeAttachmentStatus{}.SwaggerDoc()["attached"]),
		columns.Age(),
	}, func(a *storagev1.VolumeAttachment, now time.Time) []any {
		return []any{a.Name, a.Spec.Attacher, columns.Deref(a.Spec.Source.PersistentVolumeName, ""), a.Spec.NodeName, a.Status.Attached, columns.AgeOf(a, now)}
	})
}
