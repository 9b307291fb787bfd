// Package podreferences tells which objects a pod refers to: its node may read them, and they are in use.
package podreferences

import (
	corev1 "k8s.io/api/core/v1"
)

// Kind is a kind of object that pods refer to.
type Kind int

// The kinds that pods refer to. A pod's ephemeral volume counts as the claim that is created for
// it.
const (
	Secret Kind = iota
	ConfigMap
	Claim
	ServiceAccount
	ResourceClaim
)

// Visit calls see for each object of the pod's own namespace that the pod refers to, until see
// returns false. It reports whether see never did. An object may be passed more than once.
func Visit(pod *corev1.Pod, see func(kind Kind, name string) bool) bool {
	spec := &pod.Spec
	if spec.ServiceAccountName != "" && !see(ServiceAccount, spec.ServiceAccountName) {
		return false
	}
	for _, ref := range spec.ImagePullSecrets {
		if !secretOf(&ref, see) {
			return false
		}
	}
	for i := range spec.InitContainers {
		if !environment(spec.InitContainers[i].Env, spec.InitContainers[i].EnvFrom, see) {
			return false
		}
	}
	for i := range spec.Containers {
		if !environment(spec.Containers[i].Env, spec.Containers[i].EnvFrom, see) {
			return false
		}
	}
	for i := range spec.EphemeralContainers {
		if !environment(spec.EphemeralContainers[i].Env, spec.EphemeralContainers[i].EnvFrom, see) {
			return false
		}
	}
	for i := range spec.Volumes {
		if !volume(pod, &spec.Volumes[i], see) {
			return false
		}
	}
	for _, claim := range pod.Status.ResourceClaimStatuses {
		if claim.ResourceClaimName != nil && !see(ResourceClaim, *claim.ResourceClaimName) {
			return false
		}
	}
	for _, claim := range spec.ResourceClaims {
		if claim.ResourceClaimName != nil && !see(ResourceClaim, *claim.ResourceClaimName) {
			return false
		}
	}
	return true
}

func environment(env []corev1.EnvVar, from []corev1.EnvFromSource, see func(Kind, string) bool) bool {
	for i := range env {
		source := env[i].ValueFrom
		if source == nil {
			continue
		}
		if source.SecretKeyRef != nil && !secretOf(&source.SecretKeyRef.LocalObjectReference, see) {
			return false
		}
		if ref := source.ConfigMapKeyRef; ref != nil && ref.Name != "" && !see(ConfigMap, ref.Name) {
			return false
		}
	}
	for i := range from {
		if ref := from[i].SecretRef; ref != nil && !secretOf(&ref.LocalObjectReference, see) {
			return false
		}
		if ref := from[i].ConfigMapRef; ref != nil && ref.Name != "" && !see(ConfigMap, ref.Name) {
			return false
		}
	}
	return true
}

// secretOf calls see if the reference is set and has a name.
func secretOf(ref *corev1.LocalObjectReference, see func(Kind, string) bool) bool {
	return ref == nil || ref.Name == "" || see(Secret, ref.Name)
}

func volume(pod *corev1.Pod, v *corev1.Volume, see func(Kind, string) bool) bool {
	switch {
	case v.Secret != nil:
		return v.Secret.SecretName == "" || see(Secret, v.Secret.SecretName)
	case v.ConfigMap != nil:
		return v.ConfigMap.Name == "" || see(ConfigMap, v.ConfigMap.Name)
	case v.Projected != nil:
		return projected(v.Projected, see)
	case v.PersistentVolumeClaim != nil:
		return see(Claim, v.PersistentVolumeClaim.ClaimName)
	case v.Ephemeral != nil:
		return see(Claim, pod.Name+"-"+v.Name)
	case v.AzureFile != nil:
		return v.AzureFile.SecretName == "" || see(Secret, v.AzureFile.SecretName)
	case v.CephFS != nil:
		return secretOf(v.CephFS.SecretRef, see)
	case v.Cinder != nil:
		return secretOf(v.Cinder.SecretRef, see)
	case v.CSI != nil:
		return secretOf(v.CSI.NodePublishSecretRef, see)
	case v.FlexVolume != nil:
		return secretOf(v.FlexVolume.SecretRef, see)
	case v.ISCSI != nil:
		return secretOf(v.ISCSI.SecretRef, see)
	case v.RBD != nil:
		return secretOf(v.RBD.SecretRef, see)
	case v.ScaleIO != nil:
		return secretOf(v.ScaleIO.SecretRef, see)
	case v.StorageOS != nil:
		return secretOf(v.StorageOS.SecretRef, see)
	}
	return true
}

func projected(v *corev1.ProjectedVolumeSource, see func(Kind, string) bool) bool {
	for i := range v.Sources {
		if ref := v.Sources[i].Secret; ref != nil && !secretOf(&ref.LocalObjectReference, see) {
			return false
		}
		if ref := v.Sources[i].ConfigMap; ref != nil && ref.Name != "" && !see(ConfigMap, ref.Name) {
			return false
		}
	}
	return true
}
