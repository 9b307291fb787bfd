package nodeproxy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// chooseContainer returns the requested container. Its errors are Kubernetes'.
func chooseContainer(pod *corev1.Pod, name string) (string, error) {
	names := containers(pod)
	switch {
	case name != "" && !slices.Contains(names, name):
		return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
	case name != "":
		return name, nil
	case len(pod.Spec.Containers) == 1:
		return pod.Spec.Containers[0].Name, nil
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
}

// containers returns the names of all containers of a pod, in the order in which Kubernetes lists them.
func containers(pod *corev1.Pod) []string {
	var names []string
	for _, container := range pod.Spec.InitContainers {
		names = append(names, container.Name)
	}
	for _, container := range pod.Spec.Containers {
		names = append(names, container.Name)
	}
	for _, container := range pod.Spec.EphemeralContainers {
		names = append(names, container.Name)
	}
	return names
}
