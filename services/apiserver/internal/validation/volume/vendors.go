package volume

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func flex(f *corev1.FlexPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := required(f.Driver, at.Child("driver"))
	for _, key := range slices.Sorted(maps.Keys(f.Options)) {
		namespace, _, _ := strings.Cut(key, "/")
		namespace = "." + strings.ToLower(namespace)
		if strings.HasSuffix(namespace, ".kubernetes.io") || strings.HasSuffix(namespace, ".k8s.io") {
			errs = append(errs, field.Invalid(at.Child("options").Key(key), key, "kubernetes.io and k8s.io namespaces are reserved"))
		}
	}
	return errs
}

func azureFile(f *corev1.AzureFilePersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(required(f.SecretName, at.Child("secretName")), required(f.ShareName, at.Child("shareName"))...)
	if f.SecretNamespace != nil {
		errs = append(errs, required(*f.SecretNamespace, at.Child("secretNamespace"))...)
	}
	return errs
}

func azureDisk(d *corev1.AzureDiskVolumeSource, at *field.Path) field.ErrorList {
	errs := append(required(d.DiskName, at.Child("diskName")), required(d.DataDiskURI, at.Child("diskURI"))...)
	caching := []corev1.AzureDataDiskCachingMode{
		corev1.AzureDataDiskCachingNone, corev1.AzureDataDiskCachingReadOnly, corev1.AzureDataDiskCachingReadWrite,
	}
	if d.CachingMode != nil && !slices.Contains(caching, *d.CachingMode) {
		errs = append(errs, field.NotSupported(at.Child("cachingMode"), *d.CachingMode, caching))
	}
	if d.Kind == nil {
		return errs
	}
	kinds := []corev1.AzureDataDiskKind{corev1.AzureDedicatedBlobDisk, corev1.AzureManagedDisk, corev1.AzureSharedBlobDisk}
	if !slices.Contains(kinds, *d.Kind) {
		errs = append(errs, field.NotSupported(at.Child("kind"), *d.Kind, kinds))
	}
	prefix, form := "https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
	if *d.Kind == corev1.AzureManagedDisk {
		prefix, form = "/subscriptions/", "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
	}
	if !strings.HasPrefix(d.DataDiskURI, prefix) {
		errs = append(errs, field.NotSupported(at.Child("diskURI"), d.DataDiskURI, []string{form}))
	}
	return errs
}

func storageOS(s *corev1.StorageOSPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := required(s.VolumeName, at.Child("volumeName"))
	if s.VolumeName != "" {
		errs = append(errs, label(s.VolumeName, at.Child("volumeName"))...)
	}
	if s.VolumeNamespace != "" {
		errs = append(errs, label(s.VolumeNamespace, at.Child("volumeNamespace"))...)
	}
	if s.SecretRef != nil {
		errs = append(errs, required(s.SecretRef.Name, at.Child("secretRef", "name"))...)
		errs = append(errs, required(s.SecretRef.Namespace, at.Child("secretRef", "namespace"))...)
	}
	return errs
}

func namedSecret(ref *corev1.SecretReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return append(required(ref.Name, at.Child("name")), required(ref.Namespace, at.Child("namespace"))...)
}

func partition(number int32, at *field.Path) field.ErrorList {
	if number < 0 || number > 255 {
		return field.ErrorList{field.Invalid(at.Child("partition"), number, validation.InclusiveRangeError(1, 255))}
	}
	return nil
}

func required(value string, at *field.Path) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

func requiredList(values []string, at *field.Path) field.ErrorList {
	if len(values) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	return nil
}

func label(name string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.IsDNS1123Label(name) {
		errs = append(errs, field.Invalid(at, name, msg))
	}
	return errs
}
