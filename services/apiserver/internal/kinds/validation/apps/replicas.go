package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/pod"
)

// ReplicaSet validates a replica set.
func ReplicaSet(rs *appsv1.ReplicaSet) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMeta(&rs.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, replicas(rs.Spec.Replicas, path)...)
	errs = append(errs, nonnegative(int64(rs.Spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	// Kubernetes says "deployment" here too.
	errs = append(errs, selected(rs.Spec.Selector, &rs.Spec.Template, "deployment", "invalid label selector", path)...)
	return append(errs, template(&rs.Spec.Template, "ReplicaSet", path.Child("template"))...)
}

// ReplicaSetUpdate validates an update of a replica set.
func ReplicaSetUpdate(rs, old *appsv1.ReplicaSet) field.ErrorList {
	return append(ReplicaSet(rs), apivalidation.ValidateImmutableField(rs.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

// ReplicaSetStatus validates a replica set's status.
func ReplicaSetStatus(rs, _ *appsv1.ReplicaSet) field.ErrorList {
	path, s := field.NewPath("status"), &rs.Status
	errs := nonnegative(s.ObservedGeneration, path.Child("observedGeneration"))
	return append(errs, counts(path, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, "cannot be greater than readyReplicas", s.TerminatingReplicas,
		count{"fullyLabeledReplicas", s.FullyLabeledReplicas})...)
}

// ReplicationController validates a replication controller.
func ReplicationController(rc *corev1.ReplicationController) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMeta(&rc.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, nonnegative(int64(rc.Spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	if len(rc.Spec.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	errs = append(errs, replicas(rc.Spec.Replicas, path)...)
	t := rc.Spec.Template
	if t == nil {
		return append(errs, field.Required(path.Child("template"), ""))
	}
	if selector := labels.Set(rc.Spec.Selector).AsSelector(); !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), t.Labels, mismatch))
	}
	return append(errs, template(t, "ReplicationController", path.Child("template"))...)
}

// ReplicationControllerUpdate validates an update of a replication controller. All of it may
// change.
func ReplicationControllerUpdate(rc, _ *corev1.ReplicationController) field.ErrorList {
	return ReplicationController(rc)
}

// ReplicationControllerStatus validates a replication controller's status.
func ReplicationControllerStatus(rc, _ *corev1.ReplicationController) field.ErrorList {
	path, s := field.NewPath("status"), &rc.Status
	errs := nonnegative(s.ObservedGeneration, path.Child("observedGeneration"))
	return append(errs, counts(path, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, "cannot be greater than readyReplicas", nil,
		count{"fullyLabeledReplicas", s.FullyLabeledReplicas})...)
}

// PodTemplate validates a PodTemplate object.
func PodTemplate(t *corev1.PodTemplate) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&t.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, pod.Template(&t.Template, field.NewPath("template"))...)
}

// PodTemplateUpdate validates an update of a pod template. All of it may change.
func PodTemplateUpdate(t, _ *corev1.PodTemplate) field.ErrorList { return PodTemplate(t) }
