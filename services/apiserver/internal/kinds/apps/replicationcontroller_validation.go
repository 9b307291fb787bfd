package apps

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateReplicationController validates a replication controller.
func validateReplicationController(rc *corev1.ReplicationController) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMeta(&rc.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
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
	return append(errs, template(t, "ReplicationController", path.Child("template"))...)
}

// validateReplicationControllerUpdate validates an update of a replication controller. All of it may
// change.
func validateReplicationControllerUpdate(rc, _ *corev1.ReplicationController) field.ErrorList {
	return validateReplicationController(rc)
}

// validateReplicationControllerStatus validates a replication controller's status.
func validateReplicationControllerStatus(rc, _ *corev1.ReplicationController) field.ErrorList {
	path, s := field.NewPath("status"), &rc.Status
	errs := nonnegative(s.ObservedGeneration, path.Child("observedGeneration"))
	return append(errs, counts(path, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, "cannot be greater than readyReplicas", nil,
		count{"fullyLabeledReplicas", s.FullyLabeledReplicas})...)
}
