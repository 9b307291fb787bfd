package volume

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/volumesource"
)

func flex(f *corev1.FlexPersistentVolumeSource, at *field.Path) field.ErrorList {
	return volumesource.Flex(f.Driver, f.Options, at)
}

func azureFile(f *corev1.AzureFilePersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := append(volumesource.Required(f.SecretName, at.Child("secretName")), volumesource.Required(f.ShareName, at.Child("shareName"))...)
	if f.SecretNamespace != nil {
		errs = append(errs, volumesource.Required(*f.SecretNamespace, at.Child("secretNamespace"))...)
	}
	return errs
}

func storageOS(s *corev1.StorageOSPersistentVolumeSource, at *field.Path) field.ErrorList {
	errs := volumesource.Required(s.VolumeName, at.Child("volumeName"))
	if s.VolumeName != "" {
		errs = append(errs, volumesource.Label(s.VolumeName, at.Child("volumeName"))...)
	}
	if s.VolumeNamespace != "" {
		errs = append(errs, volumesource.Label(s.VolumeNamespace, at.Child("volumeNamespace"))...)
	}
	if s.SecretRef != nil {
		errs = append(errs, volumesource.Required(s.SecretRef.Name, at.Child("secretRef", "name"))...)
		errs = append(errs, volumesource.Required(s.SecretRef.Namespace, at.Child("secretRef", "namespace"))...)
	}
	return errs
}

func namedSecret(ref *corev1.SecretReference, at *field.Path) field.ErrorList {
	if ref == nil {
		return nil
	}
	return append(volumesource.Required(ref.Name, at.Child("name")), volumesource.Required(ref.Namespace, at.Child("namespace"))...)
}
