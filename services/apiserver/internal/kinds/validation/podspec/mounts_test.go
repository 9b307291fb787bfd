package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestMountOptions checks how a volume is mounted. Kubernetes reports most errors at the whole list.
func TestMountOptions(t *testing.T) {
	mounts := func(privileged bool, list ...corev1.VolumeMount) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
			first(p).SecurityContext = &corev1.SecurityContext{Privileged: &privileged}
			for i := range list {
				list[i].Name = "v"
			}
			first(p).VolumeMounts = list
		}
	}
	const all = "spec.containers[0].volumeMounts"
	both := new(corev1.MountPropagationBidirectional)
	checkExactly(t, []refusal{
		{"both ways", mounts(true, corev1.VolumeMount{MountPath: "/a", MountPropagation: both}), nil},
		{"both ways without privileges", mounts(false, corev1.VolumeMount{MountPath: "/a", MountPropagation: both}), []string{
			all + ".mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
		}},
		{"unknown words", mounts(false, corev1.VolumeMount{
			MountPath: "a:b", MountPropagation: new(corev1.MountPropagationMode("Both")), RecursiveReadOnly: new(corev1.RecursiveReadOnlyMode("Yes")),
		}), []string{
			all + `.mountPropagation: Unsupported value: "Both": supported values: "Bidirectional", "HostToContainer", "None"`,
			all + `.recursiveReadOnly: Unsupported value: "Yes": supported values: "Disabled", "Enabled", "IfPossible"`,
		}},
		{"two paths within", mounts(false, corev1.VolumeMount{MountPath: "/a", SubPath: "/a", SubPathExpr: "../$(A)"}), []string{
			all + `.subPath: Invalid value: "/a": must be a relative path`, all + `.subPathExpr: Invalid value: "../$(A)": must not contain '..'`,
			all + `[0].subPathExpr: Invalid value: "../$(A)": subPathExpr and subPath are mutually exclusive`,
		}},
		{"not read-only, on nodes that can, and propagated", mounts(false, corev1.VolumeMount{
			MountPath: "/a", RecursiveReadOnly: new(corev1.RecursiveReadOnlyIfPossible), MountPropagation: new(corev1.MountPropagationHostToContainer),
		}), []string{
			all + ".recursiveReadOnly: Forbidden: may only be specified when readOnly is true",
			all + ".recursiveReadOnly: Forbidden: may only be specified when mountPropagation is None or not specified",
		}},
		{"writable all the way", mounts(false, corev1.VolumeMount{MountPath: "/a", RecursiveReadOnly: new(corev1.RecursiveReadOnlyDisabled)}), nil},
	})
}
