package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestEnv checks where variables come from.
func TestEnv(t *testing.T) {
	from := func(value string, source corev1.EnvVarSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { first(p).Env = []corev1.EnvVar{{Name: "A", Value: value, ValueFrom: &source}} }
	}
	sources := func(list ...corev1.EnvFromSource) func(*corev1.Pod) {
		return func(p *corev1.Pod) { first(p).EnvFrom = list }
	}
	field := &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}
	key := &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}, Key: "a.b_c-d"}
	const at = "spec.containers[0].env[0].valueFrom"
	checkExactly(t, []refusal{
		{"odd names", func(p *corev1.Pod) { first(p).Env = []corev1.EnvVar{{Name: "1 a-.~"}} }, nil},
		{"a key", from("", corev1.EnvVarSource{ConfigMapKeyRef: key}), nil},
		{"a resource of the container itself", from("", corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.cpu"}}), nil},
		{"two sources", from("", corev1.EnvVarSource{ConfigMapKeyRef: key, FieldRef: field}), []string{
			at + `: Invalid value: "": may not have more than one field specified at a time`,
		}},
		{"two sources and a value", from("v", corev1.EnvVarSource{ConfigMapKeyRef: key, FieldRef: field}), []string{
			at + `: Invalid value: "": may not be specified when ` + "`value` is not empty",
		}},
		{"no key", from("", corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "S"}}}), []string{
			at + `.secretKeyRef.name: Invalid value: "S": ` + badSubdomain, at + ".secretKeyRef.key: Required value",
		}},
		{"a variable of a file in no volume", from("", corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}), []string{
			at + ".fileKeyRef.key: Required value", at + ".fileKeyRef.volumeName: Required value", at + ".fileKeyRef.path: Required value",
			at + `.fileKeyRef.volumeName: Not found: ""`,
		}},
		{"a variable of a secret's file", func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}}
			from("", corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "v", Path: "a", Key: "b"}})(p)
		}, []string{at + `.fileKeyRef.volumeName: Invalid value: "v": referenced volume must be of type emptyDir`}},
		{"a prefix of names", sources(corev1.EnvFromSource{
			Prefix: "a-", ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "m"}},
		}), nil},
		{"both and neither", sources(corev1.EnvFromSource{
			Prefix: "=", ConfigMapRef: &corev1.ConfigMapEnvSource{}, SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}},
		}, corev1.EnvFromSource{}), []string{
			`spec.containers[0].envFrom[0].prefix: Invalid value: "=": a valid environment variable name must consist only of printable ASCII characters other than '='`,
			"spec.containers[0].envFrom[0].configMapRef.name: Required value",
			`spec.containers[0].envFrom: Invalid value: "": may not have more than one field specified at a time`,
			`spec.containers[0].envFrom: Invalid value: "": must specify one of: ` + "`configMapRef` or `secretRef`",
		}},
	})
}
