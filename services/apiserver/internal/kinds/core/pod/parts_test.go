package pod

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/podtemplate"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/podspec"
)

func TestEphemeralContainers(t *testing.T) {
	debugger := func(name string) corev1.EphemeralContainer {
		return corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: name, Image: "busybox"}}
	}
	const at = "spec.ephemeralContainers"
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   []string
	}{
		{"one more", func(p *corev1.Pod) {
			c := debugger("b")
			c.TargetContainerName = "web"
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, c)
		}, nil},
		{"gone", func(p *corev1.Pod) { p.Spec.EphemeralContainers = nil }, []string{at + ": Forbidden: existing ephemeral containers \"a\" may not be removed\n"}},
		{"changed", func(p *corev1.Pod) { p.Spec.EphemeralContainers[0].Image = "other" }, []string{at + ": Forbidden: existing ephemeral containers \"a\" may not be changed"}},
		{"used name", func(p *corev1.Pod) { p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, debugger("web")) }, []string{at + `[1].name: Duplicate value: "web"`}},
		{"target", func(p *corev1.Pod) {
			c := debugger("b")
			c.TargetContainerName = "nobody"
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, c)
		}, []string{at + `[1].targetContainerName: Not found: "nobody"`}},
		{"fields of other containers", func(p *corev1.Pod) {
			c := debugger("b")
			c.Ports, c.Lifecycle = []corev1.ContainerPort{{ContainerPort: 80}}, &corev1.Lifecycle{}
			c.Resources.Limits = corev1.ResourceList{"cpu": resource.MustParse("1")}
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}}
			p.Spec.Volumes = []corev1.Volume{{Name: "v"}}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/a", SubPath: "b"}, {Name: "v", MountPath: "/c", SubPathExpr: "d"}}
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, c)
		}, []string{
			at + "[1].ports: Forbidden: " + podspec.NotEphemeral, at + "[1].resources: Forbidden: " + podspec.NotEphemeral, at + "[1].livenessProbe: Forbidden: " + podspec.NotEphemeral,
			at + "[1].lifecycle: Forbidden: " + podspec.NotEphemeral, at + "[1].volumeMounts[0].subPath: Forbidden: " + podspec.NotEphemeral, at + "[1].volumeMounts[1].subPathExpr: Forbidden: " + podspec.NotEphemeral,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := valid()
			old.Spec.EphemeralContainers = []corev1.EphemeralContainer{debugger("a")}
			podtemplate.DefaultPod(old)
			p := old.DeepCopy()
			tc.change(p)
			podtemplate.DefaultPod(p)
			errortest.Contain(t, podspec.ValidateEphemeralContainers(p, old), tc.want...)
		})
	}
	mirror := valid()
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	errortest.Contain(t, podspec.ValidateEphemeralContainers(mirror, mirror), "static pods do not support ephemeral containers")
}

func TestResize(t *testing.T) {
	list := func(cpu, memory string) corev1.ResourceList {
		return corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	}
	fresh := func() *corev1.Pod {
		p := valid()
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("2", "2Gi")}
		p.Spec.InitContainers = []corev1.Container{
			{Name: "init", Image: "i", Resources: corev1.ResourceRequirements{Requests: list("1", "1Gi")}, ResizePolicy: []corev1.ContainerResizePolicy{{ResourceName: "cpu", RestartPolicy: corev1.RestartContainer}}},
			{Name: "side", Image: "i", RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Resources: corev1.ResourceRequirements{Requests: list("1", "1Gi")}},
		}
		podtemplate.DefaultPod(p)
		return p
	}
	first := func(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
	nothing := func(*corev1.Pod) {}
	for _, tc := range []struct {
		name        string
		old, change func(*corev1.Pod)
		want        []string
	}{
		{"nothing", nothing, nothing, nil},
		{"more", nothing, func(p *corev1.Pod) { first(p).Resources.Requests = list("1500m", "512Mi") }, nil},
		{"sidecar", nothing, func(p *corev1.Pod) { p.Spec.InitContainers[1].Resources.Requests = list("2", "1Gi") }, nil},
		{"init", nothing, func(p *corev1.Pod) { p.Spec.InitContainers[0].Resources.Requests = list("2", "1Gi") }, []string{
			"spec.initContainers[0]: Forbidden: non-sidecar init containers with a resize policy of RestartContainer cannot be resized",
		}},
		{"sidecar's image", nothing, func(p *corev1.Pod) { p.Spec.InitContainers[1].Image = "j" }, []string{
			"spec.initContainers[1]: Forbidden: only cpu and memory resources for init or sidecar containers are mutable",
		}},
		{"above the limit", nothing, func(p *corev1.Pod) { first(p).Resources.Requests = list("3", "1Gi") }, []string{
			`spec.containers[0].resources.requests: Invalid value: "3": must be less than or equal to cpu limit of 2`,
		}},
		{"request removed", nothing, func(p *corev1.Pod) { delete(first(p).Resources.Requests, "cpu") }, []string{"spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed"}},
		{"limit removed", nothing, func(p *corev1.Pod) { delete(first(p).Resources.Limits, "memory") }, []string{"spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"}},
		{"other resource", nothing, func(p *corev1.Pod) { first(p).Resources.Limits["ephemeral-storage"] = resource.MustParse("1Gi") }, []string{"spec: Forbidden: only cpu and memory resources are mutable"}},
		{"image", nothing, func(p *corev1.Pod) { first(p).Image = "x" }, []string{"spec: Forbidden: only cpu and memory resources are mutable"}},
		{"something else", nothing, func(p *corev1.Pod) { p.Spec.Hostname = "x" }, []string{"spec: Forbidden: only cpu and memory resources are mutable"}},
		{"renamed", nothing, func(p *corev1.Pod) { first(p).Name = "x" }, []string{"spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"}},
		{"added", nothing, func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.InitContainers[:1] }, []string{"spec.initContainers: Forbidden: initContainers may not be added or removed on resize"}},
		{"old node", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}
		}, nothing, []string{"spec: Forbidden: Pod running on node without support for resize"}},
		{"new node", func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Resources: &corev1.ResourceRequirements{}}}
		}, nothing, nil},
		{"windows", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, nothing, []string{"windows pods cannot be resized"}},
		{"whole pod", func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("5", "5Gi")} }, func(p *corev1.Pod) {
			p.Spec.Resources.Requests = list("6", "6Gi")
		}, nil},
		{"whole pod empty", func(p *corev1.Pod) { p.Spec.Resources = nil }, func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{} }, []string{
			"spec: Forbidden: only cpu and memory resources are mutable",
		}},
		{"whole pod removed", func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: list("5", "5Gi")} }, func(p *corev1.Pod) { p.Spec.Resources = nil }, []string{
			"spec.resources: Forbidden: pod-level resources cannot be removed",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			old := fresh()
			tc.old(old)
			p := old.DeepCopy()
			tc.change(p)
			errortest.Contain(t, validateResize(p, old, corev1.PodQOSBurstable, corev1.PodQOSBurstable), tc.want...)
		})
	}
	p := fresh()
	errortest.Exactly(t, validateResize(p, p, corev1.PodQOSBurstable, corev1.PodQOSGuaranteed), `spec: Invalid value: "Guaranteed": Pod QOS Class may not change as a result of resizing`)
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	errortest.Contain(t, validateResize(p, p, "", ""), "static pods cannot be resized")
}

func valid() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
	}
}

// checkErrors checks that err contains each text, and that there is no error if there are no texts.
func checkErrors(t *testing.T, err interface{ Errors() []error }, want []string) {
	t.Helper()
	var got []string
	if err != nil {
		for _, e := range err.Errors() {
			got = append(got, e.Error())
		}
	}
	if len(want) == 0 && len(got) > 0 {
		t.Errorf("got errors %v, want none", got)
	}
	for _, text := range want {
		if !slices.ContainsFunc(got, func(e string) bool { return strings.Contains(e, text) }) {
			t.Errorf("%q is not among\n%s", text, strings.Join(got, "\n"))
		}
	}
}

func first(p *corev1.Pod) *corev1.Container { return &p.Spec.Containers[0] }
