package strategy

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func persistentVolumeClaim() *Strategy {
	return of[*corev1.PersistentVolumeClaim]{
		Create: func(c *corev1.PersistentVolumeClaim) {
			c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimPending}
		},
		Validate: func(c *corev1.PersistentVolumeClaim) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		},
		Update: change[*corev1.PersistentVolumeClaim]{
			Prepare: func(c, old *corev1.PersistentVolumeClaim) { c.Status = *old.Status.DeepCopy() },
			Validate: func(c, _ *corev1.PersistentVolumeClaim) field.ErrorList {
				return apivalidation.ValidateObjectMeta(&c.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
			},
		},
		Subresources: map[string]change[*corev1.PersistentVolumeClaim]{"status": {
			Prepare: func(c, old *corev1.PersistentVolumeClaim) { c.Spec = *old.Spec.DeepCopy() },
		}},
		ReturnDeleted: true,
	}.strategy()
}

func storageClass() *Strategy {
	return of[*storagev1.StorageClass]{
		Validate: func(c *storagev1.StorageClass) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		},
		Update: change[*storagev1.StorageClass]{Validate: func(c, _ *storagev1.StorageClass) field.ErrorList {
			return apivalidation.ValidateObjectMeta(&c.ObjectMeta, false, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
		}},
		AllowCreateOnUpdate: true,
		ReturnDeleted:       true,
	}.strategy()
}
