package scheme

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// of turns a finder for one type into a finder for any object.
func of[T Object](find func(T) []string) func(Object) []string {
	return func(obj Object) []string {
		typed, ok := obj.(T)
		if !ok {
			return nil
		}
		return find(typed)
	}
}

// when returns the path if set is true.
func when(set bool, path string) []string {
	if !set {
		return nil
	}
	return []string{path}
}

// inPods returns a finder for pods and for objects with a pod template.
func inPods(find func(*metav1.ObjectMeta, *corev1.PodSpec) []string) func(Object) []string {
	return func(obj Object) []string {
		meta, spec, prefix := podIn(obj)
		if spec == nil {
			return nil
		}
		paths := find(meta, spec)
		for i := range paths {
			paths[i] = prefix + paths[i]
		}
		return paths
	}
}

// inContainers returns a finder for a field of containers.
func inContainers(field string, set func(*corev1.Container) bool) func(Object) []string {
	return inPods(func(_ *metav1.ObjectMeta, s *corev1.PodSpec) (paths []string) {
		for _, list := range []struct {
			name       string
			containers []corev1.Container
		}{{"initContainers", s.InitContainers}, {"containers", s.Containers}} {
			for i := range list.containers {
				if set(&list.containers[i]) {
					paths = append(paths, fmt.Sprintf("spec.%s[%d].%s", list.name, i, field))
				}
			}
		}
		return paths
	})
}

// inVolumes returns a finder for a field of volumes.
func inVolumes(field string, set func(*corev1.Volume) bool) func(Object) []string {
	return inPods(func(_ *metav1.ObjectMeta, s *corev1.PodSpec) (paths []string) {
		for i := range s.Volumes {
			if set(&s.Volumes[i]) {
				paths = append(paths, fmt.Sprintf("spec.volumes[%d].%s", i, field))
			}
		}
		return paths
	})
}

// podIn returns the pod that obj is or is a template of, and the prefix of the pod's paths; a nil
// spec if there is none.
func podIn(obj Object) (meta *metav1.ObjectMeta, spec *corev1.PodSpec, prefix string) {
	var template *corev1.PodTemplateSpec
	prefix = "spec.template."
	switch o := obj.(type) {
	case *corev1.Pod:
		return &o.ObjectMeta, &o.Spec, ""
	case *corev1.PodTemplate:
		template, prefix = &o.Template, "template."
	case *corev1.ReplicationController:
		template = o.Spec.Template
	case *appsv1.ReplicaSet:
		template = &o.Spec.Template
	case *appsv1.Deployment:
		template = &o.Spec.Template
	case *appsv1.DaemonSet:
		template = &o.Spec.Template
	case *appsv1.StatefulSet:
		template = &o.Spec.Template
	case *batchv1.Job:
		template = &o.Spec.Template
	case *batchv1.CronJob:
		template, prefix = &o.Spec.JobTemplate.Spec.Template, "spec.jobTemplate.spec.template."
	}
	if template == nil {
		return nil, nil, ""
	}
	return &template.ObjectMeta, &template.Spec, prefix
}
