package podtemplate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestEachContainer checks the order and the paths of containers of all types.
func TestEachContainer(t *testing.T) {
	spec := &corev1.PodSpec{
		Containers: []corev1.Container{{Name: "b"}, {Name: "c"}}, InitContainers: []corev1.Container{{Name: "a"}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d"}}},
	}
	var got []string
	EachContainer(spec, field.NewPath("spec"), func(c *corev1.Container, at *field.Path) {
		got = append(got, c.Name+" "+at.String())
		c.Image = "changed"
	})
	want := []string{"a spec.initContainers[0]", "b spec.containers[0]", "c spec.containers[1]", "d spec.ephemeralContainers[0]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if spec.InitContainers[0].Image != "changed" || spec.Containers[1].Image != "changed" {
		t.Error("a container cannot be changed")
	}
}

// TestContainerDefaults checks every default of a container, and that none replaces what is set.
func TestContainerDefaults(t *testing.T) {
	get := func(path string, scheme corev1.URIScheme) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Scheme: scheme}}
	}
	hook := func(path string, scheme corev1.URIScheme) *corev1.LifecycleHandler {
		return &corev1.LifecycleHandler{HTTPGet: get(path, scheme).HTTPGet}
	}
	env := func(source corev1.EnvVarSource) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "A"}, {Name: "B", ValueFrom: &source}}
	}
	limits := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse(cpu)}}
	}
	full := corev1.Container{
		Image: "a", TerminationMessagePath: "/a", TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError, ImagePullPolicy: corev1.PullNever,
		Ports: []corev1.ContainerPort{{Protocol: corev1.ProtocolSCTP}}, Resources: limits("1"),
		LivenessProbe:  &corev1.Probe{ProbeHandler: get("/b", corev1.URISchemeHTTPS), TimeoutSeconds: 2, PeriodSeconds: 3, SuccessThreshold: 4, FailureThreshold: 5},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Service: new("s")}}, TimeoutSeconds: 2, PeriodSeconds: 3, SuccessThreshold: 4, FailureThreshold: 5},
	}
	for _, tc := range []struct {
		name        string
		given, want corev1.Container
	}{
		{"full", full, *full.DeepCopy()},
		{
			"empty", corev1.Container{
				Image: "a:b", Ports: []corev1.ContainerPort{{}}, Resources: limits("0.0001"), StartupProbe: &corev1.Probe{ProbeHandler: get("", "")},
				Lifecycle: &corev1.Lifecycle{PostStart: hook("", ""), PreStop: hook("/a", "")}, Env: env(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{}}),
			}, corev1.Container{
				Image: "a:b", TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
				ImagePullPolicy: corev1.PullIfNotPresent, Ports: []corev1.ContainerPort{{Protocol: corev1.ProtocolTCP}}, Resources: limits("1m"),
				StartupProbe: &corev1.Probe{
					ProbeHandler: get("/", corev1.URISchemeHTTP), TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
				},
				Lifecycle: &corev1.Lifecycle{PostStart: hook("/", corev1.URISchemeHTTP), PreStop: hook("/a", corev1.URISchemeHTTP)},
				Env:       env(corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1"}}),
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			container(&tc.given)
			if diff := cmp.Diff(tc.want, tc.given); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
