// Package storageclass has the plugins that apply storage classes to claims.
package storageclass

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// The annotations of the default storage class, for claims that name none; the second is the old
// one.
const (
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
	defaultClassBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// Default returns the plugin DefaultStorageClass.
func Default(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Mutate: defaultStorageClass(objects)}
}

// ClaimResize returns the plugin PersistentVolumeClaimResize.
func ClaimResize(objects admission.Objects) admission.Plugin {
	return admission.Plugin{Validate: checkClaimSize(objects)}
}

// defaultStorageClass sets the default storage class on a new claim that names none. If there are
// several defaults, the newest is used.
func defaultStorageClass(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		claim, ok := req.Object.(*corev1.PersistentVolumeClaim)
		if !ok || req.Verb != admission.Create || req.Subresource != "" {
			return nil
		}
		if _, old := claim.Annotations[corev1.BetaStorageClassAnnotation]; old || claim.Spec.StorageClassName != nil {
			return nil
		}
		classes, err := admission.List[*storagev1.StorageClass](ctx, objects, "")
		if err != nil {
			return admission.Forbidden(req, err)
		}
		name, ok := admission.NewestDefault(classes, func(c *storagev1.StorageClass) bool {
			return c.Annotations[defaultClass] == "true" || c.Annotations[defaultClassBeta] == "true"
		})
		if ok {
			claim.Spec.StorageClassName = &name
		}
		return nil
	}
}

// checkClaimSize refuses to grow a claim unless its storage class allows expansion.
func checkClaimSize(objects admission.Objects) func(context.Context, *admission.Request) error {
	return func(ctx context.Context, req *admission.Request) error {
		claim, ok := req.Object.(*corev1.PersistentVolumeClaim)
		old, had := req.Old.(*corev1.PersistentVolumeClaim)
		if !ok || !had || req.Verb != admission.Update || req.Subresource != "" {
			return nil
		}
		is, was := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
		if is.Cmp(was) <= 0 {
			return nil
		}
		if name := claimClass(claim); name != "" && name == claimClass(old) {
			class, err := admission.Get[*storagev1.StorageClass](ctx, objects, "", name)
			if err == nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion {
				return nil
			}
		}
		return admission.Forbidden(req, errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
	}
}

func claimClass(claim *corev1.PersistentVolumeClaim) string {
	if name, ok := claim.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return name
	}
	if claim.Spec.StorageClassName != nil {
		return *claim.Spec.StorageClassName
	}
	return ""
}
