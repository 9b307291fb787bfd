package podspec

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestPorts checks the numbers and the names of ports.
func TestPorts(t *testing.T) {
	ports := func(list ...corev1.ContainerPort) func(*corev1.Pod) {
		return func(p *corev1.Pod) { first(p).Ports = list }
	}
	const at = "spec.containers[0].ports"
	checkExactly(t, []refusal{
		{"bounds", ports(corev1.ContainerPort{Name: "abcdefghijklmno", ContainerPort: 1}, corev1.ContainerPort{ContainerPort: 65535, HostPort: 65535}), nil},
		{"no number", ports(corev1.ContainerPort{}), []string{at + "[0].containerPort: Required value"}},
		{"numbers out of bounds", ports(corev1.ContainerPort{ContainerPort: -1, HostPort: 65536}), []string{
			at + "[0].containerPort: Invalid value: -1: " + noPort, at + "[0].hostPort: Invalid value: 65536: " + noPort,
		}},
		{"a name too long, without a letter", ports(corev1.ContainerPort{Name: "0123456789012345", ContainerPort: 1}), []string{
			at + `[0].name: Invalid value: "0123456789012345": must be no more than 15 characters`,
			at + `[0].name: Invalid value: "0123456789012345": must contain at least one letter (a-z)`,
		}},
		{"a name twice", ports(corev1.ContainerPort{Name: "a", ContainerPort: 1}, corev1.ContainerPort{Name: "a", ContainerPort: 1}), []string{
			at + `[1].name: Duplicate value: "a"`,
		}},
		{"another protocol or address on the host", ports(
			corev1.ContainerPort{ContainerPort: 1, HostPort: 1}, corev1.ContainerPort{ContainerPort: 1, HostPort: 1, Protocol: "UDP"},
			corev1.ContainerPort{ContainerPort: 1, HostPort: 1, HostIP: "10.0.0.1"},
		), nil},
		{"a port of the host in two containers", func(p *corev1.Pod) {
			second := *first(p).DeepCopy()
			second.Name, second.Ports = "second", []corev1.ContainerPort{{ContainerPort: 1}, {ContainerPort: 2, HostPort: 1, HostIP: "10.0.0.1"}}
			first(p).Ports = second.Ports[1:]
			p.Spec.Containers = append(p.Spec.Containers, second)
		}, []string{`spec.containers[1].ports[1].hostPort: Duplicate value: "TCP/10.0.0.1/1"`}},
		{"a port of the host before and after the start", func(p *corev1.Pod) {
			first(p).Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 1}}
			for _, name := range []string{"a", "b"} {
				p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, Image: "i", Ports: first(p).Ports})
			}
		}, nil},
	})
}

// TestContainerNames checks that no two containers of any kind have the same name.
func TestContainerNames(t *testing.T) {
	added := func(name string) corev1.Container { return corev1.Container{Name: name, Image: "i"} }
	checkExactly(t, []refusal{
		{"all kinds", func(p *corev1.Pod) {
			p.Spec.InitContainers = []corev1.Container{added("web"), added("init"), added("init")}
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(added("init"))}}
		}, []string{
			`spec.initContainers[0].name: Duplicate value: "web"`, `spec.initContainers[2].name: Duplicate value: "init"`,
			`spec.ephemeralContainers[0].name: Duplicate value: "init"`, "spec.ephemeralContainers: Forbidden: cannot be set on create",
		}},
		{"a dot", func(p *corev1.Pod) { first(p).Name = "a.b" }, []string{`spec.containers[0].name: Invalid value: "a.b": must not contain dots`}},
		{"a target before it", func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon(added("one")), TargetContainerName: "web"},
				{EphemeralContainerCommon: corev1.EphemeralContainerCommon(added("two")), TargetContainerName: "one"},
			}
		}, []string{
			`spec.ephemeralContainers[1].targetContainerName: Not found: "one"`, "spec.ephemeralContainers: Forbidden: cannot be set on create",
		}},
		{"messages and pulls", func(p *corev1.Pod) {
			first(p).TerminationMessagePolicy, first(p).ImagePullPolicy = "Log", "always"
		}, []string{
			`spec.containers[0].terminationMessagePolicy: Unsupported value: "Log": supported values: "File", "FallbackToLogsOnError"`,
			`spec.containers[0].imagePullPolicy: Unsupported value: "always": supported values: "Always", "IfNotPresent", "Never"`,
		}},
	})
}
