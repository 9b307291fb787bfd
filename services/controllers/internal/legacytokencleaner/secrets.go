package legacytokencleaner

import corev1 "k8s.io/api/core/v1"

// secretsOf adds the names of all Secrets that a pod uses.
func secretsOf(spec *corev1.PodSpec, names map[string]bool) {
	for _, pull := range spec.ImagePullSecrets {
		names[pull.Name] = true
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			variables(containers[i].EnvFrom, containers[i].Env, names)
		}
	}
	for i := range spec.EphemeralContainers {
		variables(spec.EphemeralContainers[i].EnvFrom, spec.EphemeralContainers[i].Env, names)
	}
	for i := range spec.Volumes {
		volume(&spec.Volumes[i].VolumeSource, names)
	}
}

func variables(from []corev1.EnvFromSource, env []corev1.EnvVar, names map[string]bool) {
	for i := range from {
		if from[i].SecretRef != nil {
			names[from[i].SecretRef.Name] = true
		}
	}
	for i := range env {
		if value := env[i].ValueFrom; value != nil && value.SecretKeyRef != nil {
			names[value.SecretKeyRef.Name] = true
		}
	}
}

func volume(v *corev1.VolumeSource, names map[string]bool) {
	var ref *corev1.LocalObjectReference
	switch {
	case v.Secret != nil:
		names[v.Secret.SecretName] = true
	case v.AzureFile != nil:
		names[v.AzureFile.SecretName] = true
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if secret := v.Projected.Sources[i].Secret; secret != nil {
				names[secret.Name] = true
			}
		}
	case v.CephFS != nil:
		ref = v.CephFS.SecretRef
	case v.Cinder != nil:
		ref = v.Cinder.SecretRef
	case v.FlexVolume != nil:
		ref = v.FlexVolume.SecretRef
	case v.RBD != nil:
		ref = v.RBD.SecretRef
	case v.ScaleIO != nil:
		ref = v.ScaleIO.SecretRef
	case v.ISCSI != nil:
		ref = v.ISCSI.SecretRef
	case v.StorageOS != nil:
		ref = v.StorageOS.SecretRef
	case v.CSI != nil:
		ref = v.CSI.NodePublishSecretRef
	}
	if ref != nil {
		names[ref.Name] = true
	}
}
