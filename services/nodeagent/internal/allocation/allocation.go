// Package allocation determines the resources that a pod's containers actually have, whatever the
// pod's spec now requests. The node agent does not resize. A pod keeps the resources with which its
// containers were created, across restarts of containers and agent, and a resize (pods/resize) is
// pending as infeasible. See
// https://kubernetes.io/docs/tasks/configure-pod-container/resize-container-resources/.
package allocation

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/nodeagent/internal/podstate"
)

// Annotation is the annotation on the runtime's container with the resources it was created with,
// in the format of Encode.
const Annotation = "garboard.io/container-resources"

// EventReason is the reason of the Event about a resize that the node does not perform.
const EventReason = "ResizeInfeasible"

// Encode encodes the resources of a container, for Annotation.
func Encode(c *corev1.Container) (string, error) {
	text, err := json.Marshal(corev1.ResourceRequirements{Requests: c.Resources.Requests, Limits: c.Resources.Limits})
	if err != nil {
		return "", fmt.Errorf("encoding the resources of container %s: %w", c.Name, err)
	}
	return string(text), nil
}

// Began reports whether anything of the pod was created: the runtime holds some of it, or its last
// status shows a container.
func Began(state *podstate.Pod, old *corev1.PodStatus) bool {
	if len(state.Sandboxes)+len(state.Containers) > 0 {
		return true
	}
	for _, statuses := range [][]corev1.ContainerStatus{old.InitContainerStatuses, old.ContainerStatuses} {
		for i := range statuses {
			if statuses[i].ContainerID != "" || statuses[i].Resources != nil {
				return true
			}
		}
	}
	return false
}

// Of returns pod with the resources that it has, and the names of containers that now request
// others, and "pod" if the pod as a whole does. old is the last status of the pod. It returns pod
// itself when nothing differs.
func Of(pod *corev1.Pod, state *podstate.Pod, old *corev1.PodStatus) (allocated *corev1.Pod, resized []string) {
	allocated = pod
	change := func() *corev1.PodSpec {
		if allocated == pod {
			allocated = pod.DeepCopy()
		}
		return &allocated.Spec
	}
	for i := range pod.Spec.InitContainers {
		if has, differs := of(&pod.Spec.InitContainers[i], state, old.InitContainerStatuses); differs {
			change().InitContainers[i].Resources = has
			resized = append(resized, pod.Spec.InitContainers[i].Name)
		}
	}
	for i := range pod.Spec.Containers {
		if has, differs := of(&pod.Spec.Containers[i], state, old.ContainerStatuses); differs {
			change().Containers[i].Resources = has
			resized = append(resized, pod.Spec.Containers[i].Name)
		}
	}
	if pod.Spec.Resources != nil && Began(state, old) {
		// A pod that requested them from the start would not have been started.
		change().Resources = nil
		resized = append(resized, "pod")
	}
	return allocated, resized
}

// of returns the resources a container was created with, if its spec requests others.
func of(c *corev1.Container, state *podstate.Pod, old []corev1.ContainerStatus) (corev1.ResourceRequirements, bool) {
	has := madeWith(c.Name, state)
	for i := range old {
		if has == nil && old[i].Name == c.Name {
			has = old[i].Resources
		}
	}
	if has == nil || equality.Semantic.DeepEqual(has.Requests, c.Resources.Requests) &&
		equality.Semantic.DeepEqual(has.Limits, c.Resources.Limits) {
		return corev1.ResourceRequirements{}, false
	}
	return corev1.ResourceRequirements{Requests: has.Requests, Limits: has.Limits, Claims: c.Resources.Claims}, true
}

// madeWith returns the resources of the newest container with this name at its creation; nil if
// they are not known.
func madeWith(name string, state *podstate.Pod) *corev1.ResourceRequirements {
	present := state.Container(name)
	if present == nil || present.Annotations[Annotation] == "" {
		return nil
	}
	var has corev1.ResourceRequirements
	if err := json.Unmarshal([]byte(present.Annotations[Annotation]), &has); err != nil {
		return nil // The agent did not write this value.
	}
	return &has
}

// Message lists what a pod's resize does not change, for the condition PodResizePending.
func Message(resized []string) string {
	return fmt.Sprintf("this node does not resize pods: the resources of [%s] stay as they were when the pod was started",
		strings.Join(resized, " "))
}

// summary is the content of the kubelet's Events about a resize.
type summary struct {
	InitContainers []container `json:"initContainers,omitempty"`
	Containers     []container `json:"containers,omitempty"`
	Generation     int64       `json:"generation"`
	Error          string      `json:"error,omitempty"`
}

type container struct {
	Name      string                      `json:"name"`
	Resources corev1.ResourceRequirements `json:"resources"`
}

// EventMessage returns the message of the Event about an infeasible resize, in the kubelet's form.
func EventMessage(pod *corev1.Pod, why string) string {
	list := func(specs []corev1.Container) (out []container) {
		for i := range specs {
			out = append(out, container{Name: specs[i].Name, Resources: specs[i].Resources})
		}
		return out
	}
	text := "Pod resize " + corev1.PodReasonInfeasible
	if asked, err := json.Marshal(summary{list(pod.Spec.InitContainers), list(pod.Spec.Containers), pod.Generation, why}); err == nil {
		text += ": " + string(asked)
	}
	return text
}
