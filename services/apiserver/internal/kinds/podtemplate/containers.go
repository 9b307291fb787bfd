package podtemplate

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// EachContainer calls do for every container of every type, with its path.
func EachContainer(spec *corev1.PodSpec, path *field.Path, do func(c *corev1.Container, at *field.Path)) {
	for i := range spec.InitContainers {
		do(&spec.InitContainers[i], path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		do(&spec.Containers[i], path.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		c := corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)
		do(&c, path.Child("ephemeralContainers").Index(i))
	}
}
