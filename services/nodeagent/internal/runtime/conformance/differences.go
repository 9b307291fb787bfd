package conformance

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Intended is a difference from the kubelet that hurts no user. docs/reference/nodeagent.md lists
// all of them.
type Intended struct {
	// Path is the end of the difference's path.
	Path string
	// Why says why no user is hurt.
	Why string
	// Test is the test that shows it, with its folder below the node agent's internal packages.
	Test string
	// when reports whether a pod differs; any pod if nil.
	when func(pod *corev1.Pod) bool
}

// Differences returns the differences that are intended.
func Differences() []Intended {
	return []Intended{
		{
			Path: "annotations.io.kubernetes.container.hash", Test: "podactions TestChangedImageRestarts",
			Why: "Only the agent that created a container reads the hash. Another hash would restart all containers of a node whose agent is upgraded.",
		},
		{
			Path: "portMappings", Test: "podlifecycle TestPortMappings", when: hasSidecarPorts,
			Why: "Ports of sidecars are mapped too. The scheduler reserves them on the node, and the kubelet leaves them unreachable.",
		},
		{
			Path: "waits", Test: "podlifecycle TestHookDoesNotTellWhatItPrinted", when: hasPostStart,
			Why: "The message about a failed postStart hook has the command and its exit code, but not its output, which may hold secrets.",
		},
	}
}

func hasPostStart(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		return c.Lifecycle != nil && c.Lifecycle.PostStart != nil
	})
}

func hasSidecarPorts(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.RestartPolicy != nil && len(c.Ports) > 0 })
}

// intended reports whether a difference in a pod is intended.
func (d Difference) intended(pod *corev1.Pod) bool {
	return slices.ContainsFunc(Differences(), func(i Intended) bool {
		return strings.HasSuffix(d.Path, i.Path) && (i.when == nil || i.when(pod))
	})
}
