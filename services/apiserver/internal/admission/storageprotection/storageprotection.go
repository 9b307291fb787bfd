// Package storageprotection is the plugin StorageObjectInUseProtection.
package storageprotection

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/garboard/garboard/services/apiserver/internal/admission"
)

// Plugin returns the plugin. It gives new claims, volumes and volume attributes classes the finalizers
// that keep them while they are in use. Controllers remove them.
func Plugin() admission.Plugin {
	return admission.Plugin{Mutate: func(_ context.Context, req *admission.Request) error {
		if req.Verb != admission.Create || req.Subresource != "" {
			return nil
		}
		var finalizer string
		switch req.Object.(type) {
		case *corev1.PersistentVolumeClaim:
			finalizer = "kubernetes.io/pvc-protection"
		case *corev1.PersistentVolume:
			finalizer = "kubernetes.io/pv-protection"
		case *storagev1.VolumeAttributesClass:
			finalizer = "kubernetes.io/vac-protection"
		default:
			return nil
		}
		if has := req.Object.GetFinalizers(); !slices.Contains(has, finalizer) {
			req.Object.SetFinalizers(append(has, finalizer))
		}
		return nil
	}}
}
