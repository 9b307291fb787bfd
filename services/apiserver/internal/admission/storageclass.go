package admission

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The annotations of the default storage class, for claims that name none; the second is the old
// one.
const (
	defaultClass     = "storageclass.kubernetes.io/is-default-class"
	defaultClassBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// defaultStorageClass sets the default storage class on a new claim that names none. If there are
// several defaults, the newest is used.
func defaultStorageClass(cfg Config) func(context.Context, *Request) error {
	return func(ctx context.Context, req *Request) error {
		claim, ok := req.Object.(*corev1.PersistentVolumeClaim)
		if !ok || req.Verb != Create || req.Subresource != "" {
			return nil
		}
		if _, old := claim.Annotations[corev1.BetaStorageClassAnnotation]; old || claim.Spec.StorageClassName != nil {
			return nil
		}
		classes, err := list[*storagev1.StorageClass](ctx, cfg, "")
		if err != nil {
			return forbidden(req, err)
		}
		classes = slices.DeleteFunc(classes, func(c *storagev1.StorageClass) bool {
			return c.Annotations[defaultClass] != "true" && c.Annotations[defaultClassBeta] != "true"
		})
		if len(classes) == 0 {
			return nil
		}
		name := slices.MinFunc(classes, func(a, b *storagev1.StorageClass) int {
			return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		}).Name
		claim.Spec.StorageClassName = &name
		return nil
	}
}

// checkClaimSize refuses to grow a claim unless its storage class allows expansion.
func checkClaimSize(cfg Config) func(context.Context, *Request) error {
	return func(ctx context.Context, req *Request) error {
		claim, ok := req.Object.(*corev1.PersistentVolumeClaim)
		old, had := req.Old.(*corev1.PersistentVolumeClaim)
		if !ok || !had || req.Verb != Update || req.Subresource != "" {
			return nil
		}
		is, was := claim.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
		if is.Cmp(was) <= 0 {
			return nil
		}
		if name := claimClass(claim); name != "" && name == claimClass(old) {
			class, err := get[*storagev1.StorageClass](ctx, cfg, "", name)
			if err == nil && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion {
				return nil
			}
		}
		return forbidden(req, errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
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
