package apps

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/operation"
	"k8s.io/apimachinery/pkg/api/validate"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateReplicationController validates a new replication controller.
func validateReplicationController(rc *corev1.ReplicationController) field.ErrorList {
	return replicationControllerWith(rc, nil)
}

// replicationControllerWith validates a replication controller; was is the template that an update
// replaces, nil at creation.
func replicationControllerWith(rc *corev1.ReplicationController, was *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMetaWithOpts(&rc.ObjectMeta, true, func(path *field.Path, name string) field.ErrorList {
		return validate.LongName(context.Background(), operation.Operation{}, path, &name, nil)
	}, field.NewPath("metadata"))
	errs = append(errs, nonnegative(int64(rc.Spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	if len(rc.Spec.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	errs = append(errs, validateReplicas(rc.Spec.Replicas, path)...)
	t := rc.Spec.Template
	if t == nil {
		return append(errs, field.Required(path.Child("template"), ""))
	}
	if selector := labels.Set(rc.Spec.Selector).AsSelector(); !selector.Empty() && !selector.Matches(labels.Set(t.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), t.Labels, mismatch))
	}
	return append(errs, template(t, was, "ReplicationController", path.Child("template"))...)
}

// validateReplicationControllerUpdate validates an update of a replication controller. All of it may
// change.
func validateReplicationControllerUpdate(rc, old *corev1.ReplicationController) field.ErrorList {
	return replicationControllerWith(rc, old.Spec.Template)
}

// validateReplicationControllerStatus validates a replication controller's status.
func validateReplicationControllerStatus(rc, _ *corev1.ReplicationController) field.ErrorList {
	path, s := field.NewPath("status"), &rc.Status
	errs := nonnegative(s.ObservedGeneration, path.Child("observedGeneration"))
	return append(errs, counts(path, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, "cannot be greater than readyReplicas", nil,
		count{"fullyLabeledReplicas", s.FullyLabeledReplicas})...)
}
