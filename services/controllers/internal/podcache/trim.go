package podcache

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/resource"
)

// trim drops what no controller reads.
func trim(pod *corev1.Pod) {
	pod.ManagedFields = nil
	delete(pod.Annotations, corev1.LastAppliedConfigAnnotation)
	trimSpec(&pod.Spec)
	var resources map[string]corev1.ResourceRequirements
	if !resource.IsPodResizeInfeasible(pod) {
		resources = resourcesOf(&pod.Spec)
	}
	status := &pod.Status
	for _, statuses := range [][]corev1.ContainerStatus{
		status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses,
	} {
		for i := range statuses {
			wanted, known := resources[statuses[i].Name]
			statuses[i] = trimContainerStatus(&statuses[i], wanted, known)
		}
	}
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type != corev1.DisruptionTarget {
			c.Message = ""
		}
	}
	status.Conditions = exact(status.Conditions)
	status.ContainerStatuses = exact(status.ContainerStatuses)
	status.InitContainerStatuses = exact(status.InitContainerStatuses)
}

func trimSpec(spec *corev1.PodSpec) {
	spec.InitContainers = trimContainers(spec.InitContainers)
	spec.Containers = trimContainers(spec.Containers)
	spec.EphemeralContainers = nil
	spec.Volumes = trimVolumes(spec.Volumes)
	spec.SecurityContext, spec.ImagePullSecrets = nil, nil
	spec.HostAliases, spec.DNSConfig, spec.DNSPolicy = nil, nil, ""
	spec.TopologySpreadConstraints = nil
}

func trimContainers(containers []corev1.Container) []corev1.Container {
	if len(containers) == 0 {
		return nil
	}
	kept := make([]corev1.Container, len(containers))
	for i := range containers {
		c := &containers[i]
		kept[i] = corev1.Container{Name: c.Name, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
	}
	return kept
}

// trimVolumes keeps the volumes that name a claim, or storage that a controller may have to attach. What may be
// attached is for it to tell, so all are kept but those that never are.
func trimVolumes(volumes []corev1.Volume) []corev1.Volume {
	var kept []corev1.Volume
	for i := range volumes {
		if v := &volumes[i]; v.Secret == nil && v.ConfigMap == nil && v.Projected == nil && v.DownwardAPI == nil &&
			v.EmptyDir == nil && v.HostPath == nil && v.Image == nil {
			kept = append(kept, *v)
		}
	}
	return exact(kept)
}

// trimContainerStatus keeps the resources of a container unless they are those of its spec, if known: a quota
// charges the larger ones.
func trimContainerStatus(s *corev1.ContainerStatus, wanted corev1.ResourceRequirements, known bool) corev1.ContainerStatus {
	kept := corev1.ContainerStatus{
		Name: s.Name, State: s.State, LastTerminationState: s.LastTerminationState, Ready: s.Ready, RestartCount: s.RestartCount,
		Started: s.Started, AllocatedResources: s.AllocatedResources, Resources: s.Resources,
	}
	if known && s.Resources != nil && equality.Semantic.DeepEqual(s.Resources.Requests, wanted.Requests) &&
		equality.Semantic.DeepEqual(s.Resources.Limits, wanted.Limits) &&
		(s.AllocatedResources == nil || equality.Semantic.DeepEqual(s.AllocatedResources, wanted.Requests)) {
		kept.Resources, kept.AllocatedResources = nil, nil
	}
	for _, state := range []*corev1.ContainerState{&kept.State, &kept.LastTerminationState} {
		if state.Terminated != nil {
			state.Terminated.ContainerID, state.Terminated.Message = "", ""
		}
		if state.Waiting != nil {
			state.Waiting.Message = ""
		}
	}
	return kept
}

// resourcesOf returns the resources of a pod's containers by their names.
func resourcesOf(spec *corev1.PodSpec) map[string]corev1.ResourceRequirements {
	resources := make(map[string]corev1.ResourceRequirements, len(spec.Containers)+len(spec.InitContainers))
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			resources[containers[i].Name] = containers[i].Resources
		}
	}
	return resources
}

// exact returns a slice without spare capacity, which decoding leaves.
func exact[T any](of []T) []T {
	if len(of) == cap(of) {
		return of
	}
	if len(of) == 0 {
		return nil
	}
	kept := make([]T, len(of))
	copy(kept, of)
	return kept
}
