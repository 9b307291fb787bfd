package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

// debugged returns a pod with ephemeral containers.
func debugged(names ...string) *corev1.Pod {
	p := valid()
	p.ResourceVersion = "1"
	for _, name := range names {
		p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{
			EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "tools"},
		})
	}
	podtemplate.DefaultPod(p)
	return p
}

// TestEphemeralContainers checks what an ephemeral container may not have.
func TestEphemeralContainers(t *testing.T) {
	const at = "spec.ephemeralContainers[0]"
	pod := debugged("a")
	pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	c := &pod.Spec.EphemeralContainers[0]
	probe := &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}, SuccessThreshold: 1}
	c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = probe, probe, probe
	c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: probe.Exec}}
	c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	c.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.NotRequired}}
	c.Resources.Claims = []corev1.ResourceClaim{}
	c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/a", SubPath: "x"}, {Name: "v", MountPath: "/b", SubPathExpr: "y"}, {Name: "v", MountPath: "/c"}}
	errortest.Exactly(t, ValidateEphemeralContainers(pod, debugged()),
		at+".resources: Forbidden: "+NotEphemeral, at+".resizePolicy: Forbidden: "+NotEphemeral, at+".restartPolicy: Forbidden: "+NotEphemeral,
		at+".livenessProbe: Forbidden: "+NotEphemeral, at+".readinessProbe: Forbidden: "+NotEphemeral, at+".startupProbe: Forbidden: "+NotEphemeral,
		at+".lifecycle: Forbidden: "+NotEphemeral,
		at+".volumeMounts[0].subPath: Forbidden: "+NotEphemeral, at+".volumeMounts[1].subPathExpr: Forbidden: "+NotEphemeral,
	)
}

// TestEphemeralContainersStay checks that an update adds ephemeral containers and does nothing else to
// them, and that a static pod has none.
func TestEphemeralContainersStay(t *testing.T) {
	errortest.Exactly(t, ValidateEphemeralContainers(debugged("a", "b"), debugged("a")))
	errortest.Exactly(t, ValidateEphemeralContainers(debugged("b", "a"), debugged("a", "b")))
	errortest.Exactly(t, ValidateEphemeralContainers(debugged("b"), debugged("a")),
		"spec.ephemeralContainers: Forbidden: existing ephemeral containers \"a\" may not be removed\n")
	changed := debugged("a")
	changed.Spec.EphemeralContainers[0].Image = "other"
	errortest.Contain(t, ValidateEphemeralContainers(changed, debugged("a")),
		"spec.ephemeralContainers: Forbidden: existing ephemeral containers \"a\" may not be changed\n")
	static := debugged()
	static.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""}
	errortest.Exactly(t, ValidateEphemeralContainers(debugged("a"), static), "[]: Forbidden: static pods do not support ephemeral containers")
	annotated := debugged("a")
	annotated.Annotations = map[string]string{armorOfWeb: "unconfined"}
	errortest.Exactly(t, ValidateEphemeralContainers(annotated, debugged()),
		"metadata.annotations["+armorOfWeb+"]: Forbidden: may not add AppArmor annotations")
}
