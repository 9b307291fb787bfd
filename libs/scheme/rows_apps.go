package scheme

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// appsRows are the kinds that run pods, and those that set their number.
func appsRows() []Kind {
	return []Kind{
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("PodTemplate"),
			Resource:         "podtemplates", Singular: "podtemplate",
			Namespaced: true, StoragePrefix: "podtemplates",
			newObject: func() Object { return &corev1.PodTemplate{} },
			newList:   func() runtime.Object { return &corev1.PodTemplateList{} },
		},
		{
			GroupVersionKind: corev1.SchemeGroupVersion.WithKind("ReplicationController"),
			Resource:         "replicationcontrollers", Singular: "replicationcontroller", ShortNames: []string{"rc"}, Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{scale(), status()}, StoragePrefix: "controllers",
			newObject: func() Object { return &corev1.ReplicationController{} },
			newList:   func() runtime.Object { return &corev1.ReplicationControllerList{} },
		},
		{
			GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("DaemonSet"),
			Resource:         "daemonsets", Singular: "daemonset", ShortNames: []string{"ds"}, Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "daemonsets",
			newObject: func() Object { return &appsv1.DaemonSet{} },
			newList:   func() runtime.Object { return &appsv1.DaemonSetList{} },
		},
		{
			GroupVersionKind: appsv1.SchemeGroupVersion.WithKind("StatefulSet"),
			Resource:         "statefulsets", Singular: "statefulset", ShortNames: []string{"sts"}, Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{scale(), status()}, StoragePrefix: "statefulsets",
			newObject: func() Object { return &appsv1.StatefulSet{} },
			newList:   func() runtime.Object { return &appsv1.StatefulSetList{} },
		},
		{
			GroupVersionKind: batchv1.SchemeGroupVersion.WithKind("CronJob"),
			Resource:         "cronjobs", Singular: "cronjob", ShortNames: []string{"cj"}, Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "cronjobs",
			newObject: func() Object { return &batchv1.CronJob{} },
			newList:   func() runtime.Object { return &batchv1.CronJobList{} },
		},
		{
			GroupVersionKind: batchv1.SchemeGroupVersion.WithKind("Job"),
			Resource:         "jobs", Singular: "job", Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "jobs",
			newObject: func() Object { return &batchv1.Job{} },
			newList:   func() runtime.Object { return &batchv1.JobList{} },
		},
		{
			GroupVersionKind: autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
			Resource:         "horizontalpodautoscalers", Singular: "horizontalpodautoscaler", ShortNames: []string{"hpa"}, Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "horizontalpodautoscalers",
			Storage:   autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
			newObject: func() Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
			newList:   func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscalerList{} },
		},
		{
			GroupVersionKind: autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
			Resource:         "horizontalpodautoscalers", Singular: "horizontalpodautoscaler", ShortNames: []string{"hpa"}, Categories: []string{"all"},
			Namespaced: true, Subresources: []Subresource{status()}, StoragePrefix: "horizontalpodautoscalers",
			newObject: func() Object { return &autoscalingv2.HorizontalPodAutoscaler{} },
			newList:   func() runtime.Object { return &autoscalingv2.HorizontalPodAutoscalerList{} },
		},
	}
}
