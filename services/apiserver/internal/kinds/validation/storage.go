package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	claims "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/claim"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/resources"
)

// Kubernetes' limits for a storage class's parameters.
const (
	maxParameters     = 512
	maxParametersSize = 256 << 10
)

// StorageClass validates a storage class.
func StorageClass(c *storagev1.StorageClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, provisioner(c.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, parameters(c.Parameters, field.NewPath("parameters"))...)
	if policy := c.ReclaimPolicy; policy != nil && *policy != "" && *policy != corev1.PersistentVolumeReclaimDelete && *policy != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimPolicy"), *policy,
			[]corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}))
	}
	path := field.NewPath("volumeBindingMode")
	if mode := c.VolumeBindingMode; mode == nil {
		errs = append(errs, field.Required(path, ""))
	} else if *mode != storagev1.VolumeBindingImmediate && *mode != storagev1.VolumeBindingWaitForFirstConsumer {
		errs = append(errs, field.NotSupported(path, *mode,
			[]storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}))
	}
	return append(errs, topologies(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func provisioner(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, msg := range validation.IsQualifiedName(strings.ToLower(name)) {
		errs = append(errs, field.Invalid(path, strings.ToLower(name), msg))
	}
	return errs
}

func parameters(params map[string]string, path *field.Path) field.ErrorList {
	if len(params) > maxParameters {
		return field.ErrorList{field.TooLong(path, "", maxParameters)}
	}
	var errs field.ErrorList
	size := 0
	for key, value := range params {
		if key == "" {
			errs = append(errs, field.Invalid(path, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxParametersSize {
		errs = append(errs, field.TooLong(path, "", maxParametersSize))
	}
	return errs
}

func topologies(terms []corev1.TopologySelectorTerm, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var seen []map[string][]string
	for i, term := range terms {
		expressions, at := map[string][]string{}, path.Index(i).Child("matchLabelExpressions")
		for j, r := range term.MatchLabelExpressions {
			errs = append(errs, metav1validation.ValidateLabelName(r.Key, at.Index(j).Child("key"))...)
			if _, twice := expressions[r.Key]; twice {
				errs = append(errs, field.Duplicate(at.Index(j).Child("key"), r.Key))
			}
			if len(r.Values) == 0 {
				errs = append(errs, field.Required(at.Index(j).Child("values"), ""))
			}
			for k, value := range r.Values {
				if slices.Contains(r.Values[:k], value) {
					errs = append(errs, field.Duplicate(at.Index(j).Child("values").Index(k), value))
				}
			}
			expressions[r.Key] = slices.Sorted(slices.Values(r.Values))
		}
		if slices.ContainsFunc(seen, func(other map[string][]string) bool { return maps.EqualFunc(other, expressions, slices.Equal) }) {
			errs = append(errs, field.Duplicate(at, ""))
		}
		seen = append(seen, expressions)
	}
	return errs
}

// StorageClassUpdate validates an update of a storage class.
func StorageClassUpdate(c, old *storagev1.StorageClass) field.ErrorList {
	errs := append(StorageClass(c), apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.Parameters, old.Parameters, field.NewPath("parameters"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.Provisioner, old.Provisioner, field.NewPath("provisioner"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(c.ReclaimPolicy, old.ReclaimPolicy, field.NewPath("reclaimPolicy"))...)
	return append(errs, apivalidation.ValidateImmutableField(c.VolumeBindingMode, old.VolumeBindingMode, field.NewPath("volumeBindingMode"))...)
}

// VolumeAttributesClass validates a class of volume attributes.
func VolumeAttributesClass(c *storagev1.VolumeAttributesClass) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path := field.NewPath("spec") // There is no such field, but Kubernetes uses this path.
	errs = append(errs, provisioner(c.DriverName, path.Child("driverName"))...)
	errs = append(errs, parameters(c.Parameters, path.Child("parameters"))...)
	if len(c.Parameters) == 0 {
		errs = append(errs, field.Required(path.Child("parameters"), "must contain at least one key/value pair"))
	}
	return errs
}

// VolumeAttributesClassUpdate validates an update of a class of volume
// attributes.
func VolumeAttributesClassUpdate(c, old *storagev1.VolumeAttributesClass) field.ErrorList {
	errs := append(VolumeAttributesClass(c), apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))...)
	if c.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	if !maps.Equal(c.Parameters, old.Parameters) {
		errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
	}
	return errs
}

// PersistentVolumeClaim validates a persistent volume claim.
func PersistentVolumeClaim(c *corev1.PersistentVolumeClaim) field.ErrorList { return claim(c, nil) }

// claim checks a claim; errors that old already has may stay.
func claim(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if old == nil {
		return append(errs, claims.Spec(&c.Spec, nil, field.NewPath("spec"))...)
	}
	return append(errs, claims.Spec(&c.Spec, &old.Spec, field.NewPath("spec"))...)
}

// PersistentVolumeClaimUpdate validates an update of a claim. In its spec only the volume can be
// set once, the volume attributes class can change, and the size can change once the claim is
// bound.
func PersistentVolumeClaimUpdate(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	errs := append(apivalidation.ValidateObjectMetaUpdate(&c.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata")), claim(c, old)...)
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
			"spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%v", diff.Diff(before, now))))
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

// PersistentVolumeClaimStatus validates an update of a claim's status.
func PersistentVolumeClaimStatus(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
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
