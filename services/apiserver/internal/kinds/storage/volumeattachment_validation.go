package storage

import (
	"math"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/volume"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/claim"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volumesource"
)

// validateAttachment validates the attachment of a volume to a node.
func validateAttachment(a *storagev1.VolumeAttachment) field.ErrorList {
	errs := attachmentWithoutAttacher(a)
	at := field.NewPath("spec", "attacher")
	if a.Spec.Attacher == "" {
		return append(errs, field.Required(at, ""))
	}
	for _, msg := range content.IsDNS1123SubdomainCaseless(a.Spec.Attacher) { //nolint:staticcheck // Kubernetes accepts capitals here.
		errs = append(errs, field.Invalid(at, a.Spec.Attacher, msg))
	}
	if utf8.RuneCountInString(a.Spec.Attacher) > maxAttacher {
		errs = append(errs, field.TooLongCharacters(at, a.Spec.Attacher, maxAttacher))
	}
	return errs
}

// attachmentWithoutAttacher validates all of an attachment but the name of its attacher.
func attachmentWithoutAttacher(a *storagev1.VolumeAttachment) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&a.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path, from := field.NewPath("spec"), &a.Spec.Source
	at := path.Child("source")
	switch name := from.PersistentVolumeName; {
	case from.InlineVolumeSpec == nil && name == nil:
		errs = append(errs, field.Required(at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case from.InlineVolumeSpec != nil && name != nil:
		errs = append(errs, field.Forbidden(at, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case name == nil:
		errs = append(errs, inlineSpec(from.InlineVolumeSpec, at.Child("inlineVolumeSpec"))...)
	case *name == "":
		errs = append(errs, field.Required(at.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	}
	errs = append(errs, volume.Subdomain(a.Spec.NodeName, path.Child("nodeName"))...)
	if from.PersistentVolumeName != nil {
		errs = append(errs, volume.Subdomain(*from.PersistentVolumeName, at.Child("persistentVolumeName"))...)
	}
	return append(errs, attachmentStatus(&a.Status, field.NewPath("status"))...)
}

func attachmentStatus(s *storagev1.VolumeAttachmentStatus, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for key, value := range s.AttachmentMetadata {
		size += len(key) + len(value)
	}
	if size > maxAttachmentMetadata {
		errs = append(errs, field.TooLong(at.Child("attachmentMetadata"), "", maxAttachmentMetadata))
	}
	return append(append(errs, volumeError(s.AttachError, at.Child("attachError"))...), volumeError(s.DetachError, at.Child("detachError"))...)
}

func volumeError(e *storagev1.VolumeError, at *field.Path) field.ErrorList {
	if e == nil {
		return nil
	}
	var errs field.ErrorList
	if len(e.Message) > maxErrorMessage {
		errs = append(errs, field.TooLong(at.Child("message"), "", maxErrorMessage))
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, field.Invalid(at.Child("errorCode"), *e.ErrorCode, validation.InclusiveRangeError(0, math.MaxInt32)))
	}
	return errs
}

// validateAttachmentUpdate validates an update of an attachment or of its status. Its spec is immutable, and
// as in Kubernetes the errors in a changed attacher have other texts than at creation.
func validateAttachmentUpdate(a, old *storagev1.VolumeAttachment) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&a.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), attachmentWithoutAttacher(a)...)
	path := field.NewPath("spec")
	errs = append(errs, volumesource.DriverName(a.Spec.Attacher, path.Child("attacher"))...)
	return append(errs, apivalidation.ValidateImmutableField(a.Spec, old.Spec, path)...)
}

// inlineSpec checks a volume that is embedded in an attachment: it must be a CSI volume, and has no
// lifecycle of its own.
func inlineSpec(s *corev1.PersistentVolumeSpec, at *field.Path) field.ErrorList {
	const inline = "may not be specified in the context of inline volumes"
	var errs field.ErrorList
	if s.ClaimRef != nil {
		errs = append(errs, field.Forbidden(at.Child("claimRef"), inline))
	}
	if len(s.Capacity) > 0 {
		errs = append(errs, field.Forbidden(at.Child("capacity"), inline))
	}
	if s.CSI == nil {
		errs = append(errs, field.Required(at.Child("csi"), "has to be specified in the context of inline volumes"))
	}
	errs = append(errs, claim.AccessModes(s.AccessModes, "", at.Child("accessModes"))...)
	if policy := s.PersistentVolumeReclaimPolicy; policy != "" && policy != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.Forbidden(at.Child("persistentVolumeReclaimPolicy"), "may only be Retain in the context of inline volumes"))
	}
	if s.NodeAffinity != nil {
		errs = append(errs, field.Forbidden(at.Child("nodeAffinity"), inline))
	}
	errs = append(errs, volume.Source(s, "", at)...)
	if s.StorageClassName != "" {
		errs = append(errs, field.Forbidden(at.Child("storageClassName"), inline))
	}
	if s.VolumeMode != nil && *s.VolumeMode != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.Forbidden(at.Child("volumeMode"), "may not specify volumeMode other than Filesystem in the context of inline volumes"))
	}
	return errs
}
