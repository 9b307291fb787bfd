package volume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	sources "github.com/garboard/garboard/services/apiserver/internal/kinds/validation/source"
)

func flex(f *corev1.FlexPersistentVolumeSource, at *field.Path) field.ErrorList {
	return sources.Flex(f.Driver, f.Options, at)
}

func azureFile(f *corev1.AzureFilePersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(sources.Required(f.SecretName, at.Child("secretName")), sources.Required(f.ShareName, at.Child("shareName"))...)
	if f.SecretNamespace != nil {
		errs = append(errs, sources.Required(*f.SecretNamespace, at.Child("secretNamespace"))...)
	}
	return errs
}

func storageOS(s *corev1.StorageOSPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := sources.Required(s.VolumeName, at.Child("volumeName"))
	if s.VolumeName != "" {
		errs = append(errs, sources.Label(s.VolumeName, at.Child("volumeName"))...)
	}
	if s.VolumeNamespace != "" {
		errs = append(errs, sources.Label(s.VolumeNamespace, at.Child("volumeNamespace"))...)
	}
	if s.SecretRef != nil {
		errs = append(errs, sources.Required(s.SecretRef.Name, at.Child("secretRef", "name"))...)
		errs = append(errs, sources.Required(s.SecretRef.Namespace, at.Child("secretRef", "namespace"))...)
	}
	return errs
}

func namedSecret(ref *corev1.SecretReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return append(sources.Required(ref.Name, at.Child("name")), sources.Required(ref.Namespace, at.Child("namespace"))...)
}
