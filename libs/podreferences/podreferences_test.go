package podreferences_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/podreferences"
)

// TestSecretsOfPods checks every field by which a pod uses a Secret.
func TestSecretsOfPods(t *testing.T) {
	local := &corev1.LocalObjectReference{Name: "s"}
	from := []corev1.EnvFromSource{{}, {SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *local}}}
	value := []corev1.EnvVar{{}, {ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *local}}}}
	mount := func(source corev1.VolumeSource) corev1.PodSpec {
		return corev1.PodSpec{Volumes: []corev1.Volume{{}, {VolumeSource: source}}}
	}
	for name, spec := range map[string]corev1.PodSpec{
		"imagePullSecrets":  {ImagePullSecrets: []corev1.LocalObjectReference{*local}},
		"envFrom":           {Containers: []corev1.Container{{EnvFrom: from}}},
		"env":               {Containers: []corev1.Container{{Env: value}}},
		"initContainers":    {InitContainers: []corev1.Container{{Env: value}}},
		"ephemeral envFrom": {EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{EnvFrom: from}}}},
		"secret":            mount(corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}),
		"azureFile":         mount(corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s"}}),
		"projected": mount(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{}, {Secret: &corev1.SecretProjection{LocalObjectReference: *local}}},
		}}),
		"cephfs":     mount(corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{SecretRef: local}}),
		"cinder":     mount(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{SecretRef: local}}),
		"flexVolume": mount(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{SecretRef: local}}),
		"rbd":        mount(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{SecretRef: local}}),
		"scaleIO":    mount(corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: local}}),
		"iscsi":      mount(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: local}}),
		"storageos":  mount(corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: local}}),
		"csi":        mount(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: local}}),
	} {
		var names []string
		all := podreferences.Visit(&corev1.Pod{Spec: spec}, func(kind podreferences.Kind, name string) bool {
			if kind == podreferences.Secret {
				names = append(names, name)
			}
			return true
		})
		if !all || !slices.Equal(names, []string{"s"}) {
			t.Errorf("%s: got %v, all %v", name, names, all)
		}
		if podreferences.Visit(&corev1.Pod{Spec: spec}, func(podreferences.Kind, string) bool { return false }) {
			t.Errorf("%s: the visit goes on", name)
		}
	}
}
