package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// validateDaemonSet validates a new daemon set.
func validateDaemonSet(d *appsv1.DaemonSet) field.ErrorList { return daemonSetWith(d, nil) }

// daemonSetWith validates a daemon set; was is the template that an update replaces, nil at creation.
func daemonSetWith(d *appsv1.DaemonSet, was *corev1.PodTemplateSpec) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&d.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	path, spec := field.NewPath("spec"), &d.Spec
	errs = append(errs, metav1validation.ValidateLabelSelector(spec.Selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(path.Child("template", "metadata", "labels"), spec.Template.Labels, mismatch))
	}
	if spec.Selector != nil && len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
		errs = append(errs, field.Invalid(path.Child("selector"), spec.Selector, "empty selector is invalid for daemonset"))
	}
	errs = append(errs, template(&spec.Template, was, "DaemonSet", path.Child("template"))...)
	errs = append(errs, nonnegative(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	errs = append(errs, daemonSetStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	if limit := spec.RevisionHistoryLimit; limit != nil {
		errs = append(errs, nonnegative(int64(*limit), path.Child("revisionHistoryLimit"))...)
	}
	return errs
}

// validateDaemonSetUpdate validates an update of a daemon set.
func validateDaemonSetUpdate(d, old *appsv1.DaemonSet) field.ErrorList {
	return append(daemonSetWith(d, &old.Spec.Template), apivalidation.ValidateImmutableField(d.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

// validateDaemonSetStatus validates an update of a daemon set's status.
func validateDaemonSetStatus(d, old *appsv1.DaemonSet) field.ErrorList {
	path, s := field.NewPath("status"), &d.Status
	errs := nonnegative(s.ObservedGeneration, path.Child("observedGeneration"))
	for _, c := range []count{
		{"currentNumberScheduled", s.CurrentNumberScheduled}, {"numberMisscheduled", s.NumberMisscheduled},
		{"desiredNumberScheduled", s.DesiredNumberScheduled}, {"numberReady", s.NumberReady}, {"updatedNumberScheduled", s.UpdatedNumberScheduled},
		{"numberAvailable", s.NumberAvailable}, {"numberUnavailable", s.NumberUnavailable},
	} {
		errs = append(errs, nonnegative(int64(c.value), path.Child(c.name))...)
	}
	return append(errs, collisions(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}

func daemonSetStrategy(s *appsv1.DaemonSetUpdateStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
	default:
		return field.ErrorList{field.NotSupported(path, s, []appsv1.DaemonSetUpdateStrategyType{
			appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType,
		})}
	}
	at := path.Child("rollingUpdate")
	if s.RollingUpdate == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	unavailable, surge := s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge
	errs := values.ValidateNumberOrPercent(unavailable, at.Child("maxUnavailable"))
	errs = append(errs, values.ValidateNumberOrPercent(surge, at.Child("maxSurge"))...)
	errs = append(errs, atMostAll(unavailable, at.Child("maxUnavailable"))...)
	errs = append(errs, atMostAll(surge, at.Child("maxSurge"))...)
	switch less, more := values.Number(unavailable) != 0, values.Number(surge) != 0; {
	case less && more:
		errs = append(errs, field.Invalid(at.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"))
	case !less && !more:
		errs = append(errs, field.Required(at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}
