package volume

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/claim"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// WithClaims returns a template with a volume for each claim that its pods get, so that its
// containers may mount them.
func WithClaims(t *corev1.PodTemplateSpec, claims []corev1.PersistentVolumeClaim) *corev1.PodTemplateSpec {
	if len(claims) == 0 {
		return t
	}
	copied := t.DeepCopy()
	var made []corev1.Volume
	for _, claim := range claims {
		same := func(v corev1.Volume) bool { return v.Name == claim.Name }
		copied.Spec.Volumes = slices.DeleteFunc(copied.Spec.Volumes, same)
		if slices.ContainsFunc(made, same) {
			continue
		}
		made = append(made, corev1.Volume{Name: claim.Name, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name},
		}})
	}
	copied.Spec.Volumes = append(made, copied.Spec.Volumes...)
	return copied
}

// validatePersistentVolumeClaim validates a persistent volume claim.
func validatePersistentVolumeClaim(c *corev1.PersistentVolumeClaim) field.ErrorList {
	return validateClaim(c, nil)
}

// validateClaim checks a claim; errors that old already has may stay.
func validateClaim(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if old == nil {
		return append(errs, claim.Spec(&c.Spec, nil, field.NewPath("spec"))...)
	}
	return append(errs, claim.Spec(&c.Spec, &old.Spec, field.NewPath("spec"))...)
}

// validatePersistentVolumeClaimUpdate validates an update of a claim. In its spec only the volume can be
// set once, the volume attributes class can change, and the size can change once the claim is
// bound.
func validatePersistentVolumeClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), validateClaim(c, old)...)
	now, before := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	if before.VolumeName == "" {
		before.VolumeName = now.VolumeName
	}
	if upgradesClass(c, old) {
		now.StorageClassName = nil
	} else {
		const beta = corev1.BetaStorageClassAnnotation
		if c.Annotations[beta] != old.Annotations[beta] {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "annotations").Key(beta), c.Annotations[beta], apivalidation.FieldImmutableErrorMsg))
		}
		if name, was := old.Annotations[beta]; now.StorageClassName != nil && before.StorageClassName == nil && (!was || *now.StorageClassName == name) {
			now.StorageClassName = nil // A class assigned later to a claim that had none.
		}
	}
	if c.Status.Phase == corev1.ClaimBound && now.Resources.Requests != nil {
		now.Resources.Requests[corev1.ResourceStorage] = before.Resources.Requests[corev1.ResourceStorage]
	}
	if c.Status.Phase == corev1.ClaimBound {
		now.VolumeAttributesClassName = before.VolumeAttributesClassName
	}
	if !apiequality.Semantic.DeepEqual(now, before) {
		errs = append(errs, field.Forbidden(field.NewPath("spec"), fmt.Sprintf(
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v", values.Changes(before, now))))
	}
	size, oldSize, has := c.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage], old.Status.Capacity[corev1.ResourceStorage]
	// A size that a volume could not grow to may be reverted, but not below the capacity.
	if size.Cmp(oldSize) < 0 && size.Cmp(has) <= 0 {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "resources", "requests", "storage"), "field can not be less than status.capacity"))
	}
	errs = append(errs, apivalidation.ValidateImmutableField(c.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if name := c.Spec.VolumeAttributesClassName; old.Status.CurrentVolumeAttributesClassName != nil && !apiequality.Semantic.DeepEqual(name, old.Spec.VolumeAttributesClassName) {
		path := field.NewPath("spec", "volumeAttributesClassName")
		if name == nil {
			errs = append(errs, field.Forbidden(path, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil"))
		} else if *name == "" {
			errs = append(errs, field.Forbidden(path, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil"))
		}
	}
	return errs
}

// upgradesClass reports whether an update moves the name of the storage class from the old
// annotation to the field.
func upgradesClass(c, old *corev1.PersistentVolumeClaim) bool {
	name, annotated := old.Annotations[corev1.BetaStorageClassAnnotation]
	kept, stays := c.Annotations[corev1.BetaStorageClassAnnotation]
	return annotated && old.Spec.StorageClassName == nil && c.Spec.StorageClassName != nil && *c.Spec.StorageClassName == name && (!stays || kept == name)
}

// validatePersistentVolumeClaimStatus validates an update of a claim's status.
func validatePersistentVolumeClaimStatus(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	if c.ResourceVersion == "" {
		errs = append(errs, field.Required(field.NewPath("resourceVersion"), ""))
	}
	if len(c.Spec.AccessModes) == 0 {
		errs = append(errs, field.Required(field.NewPath("Spec", "accessModes"), ""))
	}
	errs = append(errs, sizes(c.Status.Capacity, field.NewPath("status", "capacity"), false)...)
	resizing := []corev1.ClaimResourceStatus{
		corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
		corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible,
	}
	path := field.NewPath("status", "allocatedResourceStatuses")
	for _, name := range slices.Sorted(maps.Keys(c.Status.AllocatedResourceStatuses)) {
		errs = append(errs, claimResource(name, path)...)
		if !slices.Contains(resizing, c.Status.AllocatedResourceStatuses[name]) {
			errs = append(errs, field.NotSupported(path, name, slices.Sorted(slices.Values(resizing))))
		}
	}
	return append(errs, sizes(c.Status.AllocatedResources, field.NewPath("status", "allocatedResources"), true)...)
}

func sizes(list corev1.ResourceList, path *field.Path, named bool) field.ErrorList {
	var errs field.ErrorList
	for _, name := range resources.Sorted(list) {
		if named {
			if wrong := claimResource(name, path); len(wrong) > 0 {
				errs = append(errs, wrong...)
				continue
			}
		}
		if quantity := list[name]; quantity.Value() < 0 {
			errs = append(errs, field.Invalid(path.Key(string(name)), quantity.Value(), "must be a valid resource quantity"))
		}
	}
	return errs
}

// claimResource checks the name of a resource of a claim: the only native one is storage.
func claimResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(string(name)) {
		errs = append(errs, field.Invalid(path, string(name), msg))
	}
	if len(errs) == 0 && resources.Native(name) && name != corev1.ResourceStorage {
		errs = append(errs, field.NotSupported(path, string(name), []corev1.ResourceName{corev1.ResourceStorage}))
	}
	return errs
}
