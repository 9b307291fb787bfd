package claim

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Spec validates the spec of a claim or a claim template. Errors that old, which may be nil,
// already has are allowed to stay.
func Spec(spec, old *corev1.PersistentVolumeClaimSpec, path *field.Path) field.ErrorList {
	errs := AccessModes(spec.AccessModes, "at least 1 access mode is required", path.Child("accessModes"))
	if spec.Selector != nil {
		strict := metav1validation.LabelSelectorValidationOptions{}
		lenient := old != nil && len(metav1validation.ValidateLabelSelector(old.Selector, strict, nil)) > 0
		errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector,
			metav1validation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: lenient}, path.Child("selector"))...)
	}
	at := path.Child("resources").Key(string(corev1.ResourceStorage))
	if size, ok := spec.Resources.Requests[corev1.ResourceStorage]; !ok {
		errs = append(errs, field.Required(at, ""))
	} else if size.Sign() <= 0 {
		errs = append(errs, field.Invalid(at, size.String(), "must be greater than zero"))
	}
	errs = append(errs, className(spec.StorageClassName, path.Child("storageClassName"))...)
	if mode := spec.VolumeMode; mode != nil && *mode != corev1.PersistentVolumeBlock && *mode != corev1.PersistentVolumeFilesystem {
		errs = append(errs, field.NotSupported(path.Child("volumeMode"), *mode,
			[]corev1.PersistentVolumeMode{corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem}))
	}
	errs = append(errs, sources(spec, path, old != nil && namesGroup(old))...)
	return append(errs, className(spec.VolumeAttributesClassName, path.Child("volumeAttributesClassName"))...)
}

// AccessModes checks the modes of a claim or a volume; none is the error message if there are no
// modes.
func AccessModes(modes []corev1.PersistentVolumeAccessMode, none string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(modes) == 0 {
		errs = append(errs, field.Required(at, none))
	}
	known := []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod}
	alone, shared := false, false
	for _, mode := range modes {
		switch {
		case !slices.Contains(known, mode):
			errs = append(errs, field.NotSupported(at, mode, known))
		case mode == corev1.ReadWriteOncePod:
			alone = true
		default:
			shared = true
		}
	}
	if alone && shared {
		errs = append(errs, field.Forbidden(at, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func className(name *string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if name == nil || *name == "" {
		return nil
	}
	for _, msg := range apivalidation.NameIsDNSSubdomain(*name, false) {
		errs = append(errs, field.Invalid(path, *name, msg))
	}
	return errs
}

// namesGroup reports whether a claim's source is of a named API group, whose name was not checked
// in earlier versions.
func namesGroup(spec *corev1.PersistentVolumeClaimSpec) bool {
	return spec.DataSource != nil && spec.DataSource.APIGroup != nil || spec.DataSourceRef != nil && spec.DataSourceRef.APIGroup != nil
}

func sources(spec *corev1.PersistentVolumeClaimSpec, path *field.Path, anyGroup bool) field.ErrorList {
	var errs field.ErrorList
	source, ref := spec.DataSource, spec.DataSourceRef
	if source != nil {
		errs = append(errs, origin(source.APIGroup, source.Kind, source.Name, path.Child("dataSource"), anyGroup)...)
	}
	if ref == nil {
		return errs
	}
	at := path.Child("dataSourceRef")
	errs = append(errs, origin(ref.APIGroup, ref.Kind, ref.Name, at, anyGroup)...)
	elsewhere := ref.Namespace != nil && *ref.Namespace != ""
	if elsewhere {
		for _, msg := range apivalidation.ValidateNamespaceName(*ref.Namespace, false) {
			errs = append(errs, field.Invalid(at.Child("namespace"), *ref.Namespace, msg))
		}
	}
	switch {
	case source == nil:
	case elsewhere:
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified"))
	case !reflect.DeepEqual(source.APIGroup, ref.APIGroup) || source.Kind != ref.Kind || source.Name != ref.Name:
		errs = append(errs, field.Invalid(path, path.Child("dataSource"), "must match dataSourceRef"))
	}
	return errs
}

func origin(group *string, kind, name string, path *field.Path, anyGroup bool) field.ErrorList {
	var errs field.ErrorList
	if name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	}
	if kind == "" {
		errs = append(errs, field.Required(path.Child("kind"), ""))
	}
	if group == nil || *group == "" {
		if kind != "PersistentVolumeClaim" {
			errs = append(errs, field.Invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
		}
		return errs
	}
	if !anyGroup {
		for _, msg := range validation.IsDNS1123Subdomain(*group) {
			errs = append(errs, field.Invalid(path.Child("apiGroup"), *group, msg))
		}
	}
	return errs
}
