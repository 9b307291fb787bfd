package storage

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestAttachment(t *testing.T) {
	type attachment = *storagev1.VolumeAttachment
	inline := func(spec corev1.PersistentVolumeSpec) func(attachment) {
		return func(a attachment) { a.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &spec} }
	}
	csi := corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	newAttachment := func() attachment {
		return &storagev1.VolumeAttachment{ObjectMeta: meta(), Spec: storagev1.VolumeAttachmentSpec{
			Attacher: "csi.example.com", NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")},
		}}
	}
	const inlined = "may not be specified in the context of inline volumes"
	for name, tc := range map[string]struct {
		change func(attachment)
		want   []string
	}{
		"fine":                    {change: func(attachment) {}},
		"no attacher":             {change: func(a attachment) { a.Spec.Attacher = "" }, want: []string{"spec.attacher: Required value"}},
		"an attacher in capitals": {change: func(a attachment) { a.Spec.Attacher = "CSI.Example.com" }},
		"a bad attacher": {change: func(a attachment) { a.Spec.Attacher = "a_" + strings.Repeat("b", 62) }, want: []string{
			`spec.attacher: Invalid value: "a_` + strings.Repeat("b", 62) + `": an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
			"spec.attacher: Too long: may not be more than 63 characters",
		}},
		"a bad node":       {change: func(a attachment) { a.Spec.NodeName = "A" }, want: []string{`spec.nodeName: Invalid value: "A": ` + badSubdomain}},
		"no source":        {change: func(a attachment) { a.Spec.Source.PersistentVolumeName = nil }, want: []string{"spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"}},
		"two sources":      {change: func(a attachment) { a.Spec.Source.InlineVolumeSpec = &corev1.PersistentVolumeSpec{} }, want: []string{"spec.source: Forbidden: must specify exactly one of inlineVolumeSpec and persistentVolumeName"}},
		"a bad volume":     {change: func(a attachment) { a.Spec.Source.PersistentVolumeName = new("A") }, want: []string{`spec.source.persistentVolumeName: Invalid value: "A": ` + badSubdomain}},
		"an inline volume": {change: inline(corev1.PersistentVolumeSpec{AccessModes: modes, PersistentVolumeSource: csi})},
		"too much of an inline volume": {
			change: inline(corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{}, Capacity: corev1.ResourceList{"storage": resource.MustParse("1")}, AccessModes: modes,
				PersistentVolumeReclaimPolicy: "Delete", NodeAffinity: affinity("x"), StorageClassName: "s", VolumeMode: new(corev1.PersistentVolumeBlock),
				PersistentVolumeSource: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/"}},
			}),
			want: []string{
				"spec.source.inlineVolumeSpec.claimRef: Forbidden: " + inlined,
				"spec.source.inlineVolumeSpec.capacity: Forbidden: " + inlined,
				"spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
				"spec.source.inlineVolumeSpec.persistentVolumeReclaimPolicy: Forbidden: may only be Retain in the context of inline volumes",
				"spec.source.inlineVolumeSpec.nodeAffinity: Forbidden: " + inlined,
				"spec.source.inlineVolumeSpec.storageClassName: Forbidden: " + inlined,
				"spec.source.inlineVolumeSpec.volumeMode: Forbidden: may not specify volumeMode other than Filesystem in the context of inline volumes",
			},
		},
		"a long status": {
			change: func(a attachment) {
				a.Status.AttachmentMetadata = map[string]string{"k": strings.Repeat("x", 256<<10)}
				a.Status.AttachError = &storagev1.VolumeError{Message: strings.Repeat("x", 1025)}
				a.Status.DetachError = &storagev1.VolumeError{ErrorCode: new(int32(-1))}
			},
			want: []string{
				"status.attachmentMetadata: Too long: may not be more than 262144 bytes", "status.attachError.message: Too long: may not be more than 1024 bytes",
				"status.detachError.errorCode: Invalid value: -1: must be between 0 and 2147483647, inclusive",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAttachment()
			tc.change(a)
			errortest.Exactly(t, validateAttachment(a), tc.want...)
		})
	}
	changed := newAttachment()
	changed.Spec.NodeName = "other"
	errortest.Contain(t, validateAttachmentUpdate(changed, newAttachment()), "spec: Invalid value: ", "field is immutable")
	changed.Spec.Attacher = strings.Repeat("b", 64)
	errortest.Contain(t, validateAttachmentUpdate(changed, newAttachment()), "spec.attacher: Too long: may not be more than 63 bytes", "field is immutable")
	errortest.Exactly(t, validateAttachmentUpdate(newAttachment(), newAttachment()))
}
