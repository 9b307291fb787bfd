package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateReplicaSet validates a new replica set.
func validateReplicaSet(rs *appsv1.ReplicaSet) field.ErrorList { return replicaSetWith(rs, nil) }

// replicaSetWith validates a replica set; was is the template that an update replaces, nil at creation.
func replicaSetWith(rs *appsv1.ReplicaSet, was *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMeta(&rs.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validateReplicas(rs.Spec.Replicas, path)...)
	errs = append(errs, nonnegative(int64(rs.Spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	// Kubernetes says "deployment" here too.
	wellFormed, wrong := selected(rs.Spec.Selector, &rs.Spec.Template, "deployment", "invalid label selector", path)
	errs = append(errs, wrong...)
	if !wellFormed {
		return errs
	}
	return append(errs, template(&rs.Spec.Template, was, "ReplicaSet", path.Child("template"))...)
}

// validateReplicaSetUpdate validates an update of a replica set.
func validateReplicaSetUpdate(rs, old *appsv1.ReplicaSet) field.ErrorList {
	return append(replicaSetWith(rs, &old.Spec.Template), apivalidation.ValidateImmutableField(rs.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

// validateReplicaSetStatus validates a replica set's status.
func validateReplicaSetStatus(rs, _ *appsv1.ReplicaSet) field.ErrorList {
	path, s := field.NewPath("status"), &rs.Status
	errs := nonnegative(s.ObservedGeneration, path.Child("observedGeneration"))
	return append(errs, counts(path, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, "cannot be greater than readyReplicas", s.TerminatingReplicas,
		count{"fullyLabeledReplicas", s.FullyLabeledReplicas})...)
}
