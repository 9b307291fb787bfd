package defaults

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/garboard/garboard/libs/scheme"
)

// DropDisabled drops the fields of Kubernetes' features that are disabled by default, unless old has
// them already; old is nil at creation.
func DropDisabled(obj, old scheme.Object) {
	if lease, ok := obj.(*coordinationv1.Lease); ok {
		if was, ok := old.(*coordinationv1.Lease); !ok || was.Spec.Strategy == nil {
			lease.Spec.Strategy = nil
		}
		if was, ok := old.(*coordinationv1.Lease); !ok || was.Spec.PreferredHolder == nil {
			lease.Spec.PreferredHolder = nil
		}
		return
	}
	spec := podSpec(obj)
	if spec == nil {
		return
	}
	was := podSpec(old)
	if was == nil || was.SchedulingGroup == nil {
		spec.SchedulingGroup = nil
	}
	if was == nil || len(was.EvictionResponders) == 0 {
		spec.EvictionResponders = nil
	}
}

// podSpec returns the spec of a pod, or of the pods that an object makes; nil if it makes none.
func podSpec(obj scheme.Object) *corev1.PodSpec {
	switch typed := obj.(type) {
	case *corev1.Pod:
		return &typed.Spec
	case *corev1.PodTemplate:
		return &typed.Template.Spec
	case *corev1.ReplicationController:
		if typed.Spec.Template == nil {
			return nil
		}
		return &typed.Spec.Template.Spec
	case *appsv1.DaemonSet:
		return &typed.Spec.Template.Spec
	case *appsv1.Deployment:
		return &typed.Spec.Template.Spec
	case *appsv1.ReplicaSet:
		return &typed.Spec.Template.Spec
	case *appsv1.StatefulSet:
		return &typed.Spec.Template.Spec
	case *batchv1.Job:
		return &typed.Spec.Template.Spec
	case *batchv1.CronJob:
		return &typed.Spec.JobTemplate.Spec.Template.Spec
	}
	return nil
}
