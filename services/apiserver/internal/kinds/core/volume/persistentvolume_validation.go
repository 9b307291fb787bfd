package volume

import (
	"fmt"
	"maps"
	"path"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/claim"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/scheduling"
)

// validatePersistentVolume validates a persistent volume.
func validatePersistentVolume(v *corev1.PersistentVolume) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&v.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(append(errs, spec(&v.Spec, v.Name, field.NewPath("spec"))...), mountOptions(v)...)
}

// spec checks a volume's source, and the fields that its users set.
func spec(s *corev1.PersistentVolumeSpec, name string, at *field.Path) field.ErrorList {
	errs := claim.AccessModes(s.AccessModes, "", at.Child("accessModes"))
	errs = append(errs, capacity(s.Capacity, at.Child("capacity"))...)
	policies := []corev1.PersistentVolumeReclaimPolicy{
		corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain,
	}
	if policy := s.PersistentVolumeReclaimPolicy; policy != "" && !slices.Contains(policies, policy) {
		errs = append(errs, field.NotSupported(at.Child("persistentVolumeReclaimPolicy"), policy, policies))
	}
	if s.NodeAffinity != nil {
		errs = append(errs, nodeAffinity(s.NodeAffinity, at.Child("nodeAffinity"))...)
	}
	errs = append(errs, Source(s, name, at)...)
	if s.HostPath != nil && path.Clean(s.HostPath.Path) == "/" && s.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(at.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if s.StorageClassName != "" {
		errs = append(errs, Subdomain(s.StorageClassName, at.Child("storageClassName"))...)
	}
	modes := []corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}
	if s.VolumeMode != nil && !slices.Contains(modes, *s.VolumeMode) {
		errs = append(errs, field.NotSupported(at.Child("volumeMode"), *s.VolumeMode, modes))
	}
	return append(errs, attributesClass(s, at)...)
}

func capacity(list corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(list) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if _, ok := list[corev1.ResourceStorage]; !ok || len(list) > 1 {
		errs = append(errs, field.NotSupported(at, list, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range slices.Sorted(maps.Keys(list)) {
		quantity := list[name]
		if quantity.Value() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), quantity.Value(), "must be a valid resource quantity"))
		}
		if quantity.Cmp(resource.Quantity{}) <= 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), quantity.String(), "must be greater than zero"))
		}
	}
	return errs
}

func nodeAffinity(affinity *corev1.VolumeNodeAffinity, at *field.Path) field.ErrorList {
	if affinity.Required == nil {
		return field.ErrorList{field.Required(at.Child("required"), "must specify required node constraints")}
	}
	return scheduling.NodeSelector(affinity.Required, at.Child("required"))
}

func attributesClass(s *corev1.PersistentVolumeSpec, at *field.Path) field.ErrorList {
	name := s.VolumeAttributesClassName
	if name == nil {
		return nil
	}
	var errs field.ErrorList
	if *name == "" {
		errs = append(errs, field.Required(at.Child("volumeAttributesClassName"), "an empty string is disallowed"))
	} else {
		errs = append(errs, Subdomain(*name, at.Child("volumeAttributesClassName"))...)
	}
	if s.CSI == nil {
		errs = append(errs, field.Required(at.Child("csi"), "has to be specified when using volumeAttributesClassName"))
	}
	return errs
}

// mountOptions rejects the annotation with mount options for volume types that do not support it.
func mountOptions(v *corev1.PersistentVolume) field.ErrorList {
	s := &v.Spec.PersistentVolumeSource
	if _, ok := v.Annotations[corev1.MountOptionAnnotation]; !ok || s.GCEPersistentDisk != nil || s.AWSElasticBlockStore != nil ||
		s.Glusterfs != nil || s.NFS != nil || s.RBD != nil || s.Quobyte != nil || s.ISCSI != nil || s.Cinder != nil || s.CephFS != nil ||
		s.AzureFile != nil || s.VsphereVolume != nil || s.AzureDisk != nil || s.PhotonPersistentDisk != nil {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("metadata").Child("annotations", corev1.MountOptionAnnotation),
		"may not specify mount options for this volume type")}
}

// validatePersistentVolumeUpdate validates an update of a persistent volume. Its source and its mode are
// immutable, and its node affinity is once set.
func validatePersistentVolumeUpdate(v, old *corev1.PersistentVolume) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&v.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), validatePersistentVolume(v)...)
	now, was := v.Spec.PersistentVolumeSource.DeepCopy(), &old.Spec.PersistentVolumeSource
	if was.CSI != nil && was.CSI.ControllerExpandSecretRef == nil && now.CSI != nil {
		now.CSI.ControllerExpandSecretRef = nil // It may be set later.
	}
	if !apiequality.Semantic.DeepEqual(now, was) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			fmt.Sprintf("spec.persistentvolumesource is immutable after creation\n%v", diff.Diff(*was, *now))))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(v.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.Spec.NodeAffinity != nil {
		errs = append(errs, sameNodes(v.Spec.NodeAffinity, old.Spec.NodeAffinity, field.NewPath("nodeAffinity"))...)
	}
	if old.Spec.VolumeAttributesClassName != nil && v.Spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// sameNodes allows only one change of a volume's node affinity: replacing deprecated label names
// with their new ones.
func sameNodes(now, was *corev1.VolumeNodeAffinity, at *field.Path) field.ErrorList {
	renamed := map[string]string{
		corev1.LabelTopologyZone:       corev1.LabelFailureDomainBetaZone,
		corev1.LabelTopologyRegion:     corev1.LabelFailureDomainBetaRegion,
		corev1.LabelInstanceTypeStable: corev1.LabelInstanceType,
		corev1.LabelOSStable:           "beta.kubernetes.io/os",
		corev1.LabelArchStable:         "beta.kubernetes.io/arch",
	}
	compared := now.DeepCopy()
	if compared != nil && compared.Required != nil && was.Required != nil && len(compared.Required.NodeSelectorTerms) == len(was.Required.NodeSelectorTerms) {
		for i := range compared.Required.NodeSelectorTerms {
			expressions, before := compared.Required.NodeSelectorTerms[i].MatchExpressions, was.Required.NodeSelectorTerms[i].MatchExpressions
			for j := range min(len(expressions), len(before)) {
				if former, ok := renamed[expressions[j].Key]; ok && former == before[j].Key {
					expressions[j].Key = former
				}
			}
		}
	}
	return apivalidation.ValidateImmutableField(compared, was, at)
}

// validatePersistentVolumeStatus validates an update of a persistent volume's status.
func validatePersistentVolumeStatus(v, old *corev1.PersistentVolume) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&v.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if v.ResourceVersion == "" {
		errs = append(errs, field.Required(field.NewPath("resourceVersion"), ""))
	}
	return errs
}

func Subdomain(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range apivalidation.NameIsDNSSubdomain(name, false) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}
