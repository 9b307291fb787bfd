// Package conformance compares what the node agent asks of a container runtime with what the
// kubelet asks of it. A case is a pod. Its answer are the calls to the runtime in the life of the
// pod, recorded by a Machine, and what else its containers can see.
package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Case is a pod to run, with what depends on the machine.
type Case struct {
	// Pod is the pod as the apiserver hands it to a node, with the ephemeral containers that it gets
	// later.
	Pod json.RawMessage `json:"pod"`
	// HugePageSizes are the sizes that the machine's kernel has, as in cgroups ("2MB").
	HugePageSizes []string `json:"hugePageSizes,omitempty"`
}

// Decode returns the pod.
func (c Case) Decode() (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(c.Pod, pod); err != nil {
		return nil, fmt.Errorf("decoding the pod of a case: %w", err)
	}
	return pod, nil
}

// Call is a call to the runtime that changes something. Request is its request in protobuf's JSON.
type Call struct {
	Method  string `json:"method"`
	Request any    `json:"request"`
}

// Answer is what happened to a pod.
type Answer struct {
	Calls []Call `json:"calls,omitempty"`
	// Waits are the reasons why containers were not started, by container: "Reason: message".
	Waits map[string]string `json:"waits,omitempty"`
	// Hosts is the content of the pod's hosts file.
	Hosts string `json:"hosts,omitempty"`
	// QOSClass is the class of the pod if the apiserver has not set one.
	QOSClass string `json:"qosClass,omitempty"`
}

// Vector is a case with the kubelet's answer.
type Vector struct {
	Case   Case   `json:"case"`
	Answer Answer `json:"answer"`
}

// Node runs pods on a Machine.
type Node interface {
	// Sync moves a pod closer to its wanted state. It returns the reasons why containers could not
	// be started, by container, as "Reason: message".
	Sync(ctx context.Context, pod *corev1.Pod) (waits map[string]string, err error)
	// Kill ends all containers of a pod, which have grace seconds for it.
	Kill(ctx context.Context, pod *corev1.Pod, grace int64) error
	// QOSClass returns the class of a pod whose status has none.
	QOSClass(pod *corev1.Pod) string
}

// Run takes a pod through its life on a machine: the node syncs it until all of it runs, while its
// init containers end; after the first sync it gets its ephemeral containers; then its first container
// fails and is restarted, and its first ephemeral container fails; then the node kills it.
func Run(ctx context.Context, m *Machine, node Node, pod *corev1.Pod) (Answer, error) {
	m.Begin()
	answer := Answer{Waits: map[string]string{}}
	later := pod.Spec.EphemeralContainers
	pod.Spec.EphemeralContainers = nil
	sync := func() error {
		waits, err := node.Sync(ctx, pod)
		maps.Copy(answer.Waits, waits)
		return err
	}
	for range 2 + len(pod.Spec.InitContainers) {
		if err := sync(); err != nil {
			return Answer{}, err
		}
		pod.Spec.EphemeralContainers = later
		for i := range pod.Spec.InitContainers {
			if c := &pod.Spec.InitContainers[i]; c.RestartPolicy == nil {
				m.End(c.Name, 0)
			}
		}
	}
	m.End(pod.Spec.Containers[0].Name, 1)
	if len(pod.Spec.EphemeralContainers) > 0 {
		m.End(pod.Spec.EphemeralContainers[0].Name, 1)
	}
	if err := sync(); err != nil {
		return Answer{}, err
	}
	hosts, err := os.ReadFile(filepath.Join(m.Root(), "pods", string(pod.UID), "etc-hosts"))
	if err != nil && !os.IsNotExist(err) {
		return Answer{}, fmt.Errorf("reading the hosts file of a pod: %w", err)
	}
	answer.Hosts = string(hosts)
	unclassified := pod.DeepCopy()
	unclassified.Status.QOSClass = ""
	answer.QOSClass = node.QOSClass(unclassified)
	if err := node.Kill(ctx, pod, *pod.Spec.TerminationGracePeriodSeconds); err != nil {
		return Answer{}, err
	}
	answer.Calls = m.Calls()
	return normal(answer, m.Root(), sidecars(pod), debuggers(pod))
}

// sidecars returns the beginnings of the IDs of the containers that end after the others. A pod
// without a grace period has none: the kubelet does not wait then.
func sidecars(pod *corev1.Pod) []string {
	if *pod.Spec.TerminationGracePeriodSeconds == 0 {
		return nil
	}
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, containerID(string(pod.UID), pod.Spec.InitContainers[i].Name, ""))
	}
	return names
}

// debuggers returns the beginnings of the IDs of the ephemeral containers.
func debuggers(pod *corev1.Pod) []string {
	var names []string
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, containerID(string(pod.UID), pod.Spec.EphemeralContainers[i].Name, ""))
	}
	return names
}

// hasPrefix reports whether text begins with one of the prefixes.
func hasPrefix(text string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}
