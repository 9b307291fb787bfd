// Package sample creates the objects that benchmarks use.
package sample

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pod returns a pod of about 1.5 KB, like a Deployment's, for a scheduler that does not exist.
// Every tenth has the label selected=yes.
func Pod(namespace, name string, n int) *corev1.Pod {
	controller := true
	app := "app-" + strconv.Itoa(n/10)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: namespace,
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "pod-template-hash": "5d4f8c7b9", "selected": map[bool]string{true: "yes", false: "no"}[n%10 == 0],
			},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "prometheus.io/port": "8080", "example.com/owner": "team-" + strconv.Itoa(n%7)},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app + "-5d4f8c7b9", UID: "7d1c0f0e-5a3b-4b8e-9f55-0d9b7ad2f001", Controller: &controller,
			}},
		},
		Spec: corev1.PodSpec{
			SchedulerName: "nobody",
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example.com/team/app:v1.2.3", Command: []string{"/app", "--port=8080", "--log-level=info"},
				Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}},
				Env: []corev1.EnvVar{
					{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
					{Name: "GOMAXPROCS", Value: "2"}, {Name: "MODE", Value: "production"},
				},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi")},
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "config", MountPath: "/etc/app"}},
			}},
			Volumes: []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
				ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: app}},
			}}},
		},
	}
}
