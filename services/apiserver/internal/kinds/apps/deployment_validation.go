package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// validateDeployment validates a new deployment.
func validateDeployment(d *appsv1.Deployment) field.ErrorList { return deploymentWith(d, nil) }

// deploymentWith validates a deployment; was is the template that an update replaces, nil at creation.
func deploymentWith(d *appsv1.Deployment, was *corev1.PodTemplateSpec) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMeta(&d.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, validateReplicas(d.Spec.Replicas, path)...)
	wellFormed, wrong := selected(d.Spec.Selector, &d.Spec.Template, "deployment", "invalid label selector", path)
	errs = append(errs, wrong...)
	if wellFormed {
		errs = append(errs, template(&d.Spec.Template, was, "ReplicaSet", path.Child("template"))...)
	}
	errs = append(errs, deploymentStrategy(&d.Spec.Strategy, path.Child("strategy"))...)
	errs = append(errs, nonnegative(int64(d.Spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	if limit := d.Spec.RevisionHistoryLimit; limit != nil {
		errs = append(errs, nonnegative(int64(*limit), path.Child("revisionHistoryLimit"))...)
	}
	if deadline := d.Spec.ProgressDeadlineSeconds; deadline != nil {
		errs = append(errs, nonnegative(int64(*deadline), path.Child("progressDeadlineSeconds"))...)
		if *deadline <= d.Spec.MinReadySeconds {
			errs = append(errs, field.Invalid(path.Child("progressDeadlineSeconds"), *deadline, "must be greater than minReadySeconds"))
		}
	}
	return errs
}

// validateDeploymentUpdate validates an update of a deployment.
func validateDeploymentUpdate(d, old *appsv1.Deployment) field.ErrorList {
	return append(deploymentWith(d, &old.Spec.Template), apivalidation.ValidateImmutableField(d.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

// validateDeploymentStatus validates an update of a deployment's status.
func validateDeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	path, s := field.NewPath("status"), &d.Status
	errs := nonnegative(s.ObservedGeneration, path.Child("observedGeneration"))
	errs = append(errs, counts(path, s.Replicas, s.ReadyReplicas, s.AvailableReplicas, "cannot be greater than readyReplicas", s.TerminatingReplicas,
		count{"updatedReplicas", s.UpdatedReplicas})...)
	errs = append(errs, nonnegative(int64(s.UnavailableReplicas), path.Child("unavailableReplicas"))...)
	return append(errs, collisions(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}

func deploymentStrategy(s *appsv1.DeploymentStrategy, path *field.Path) field.ErrorList {
	switch s.Type {
	case appsv1.RecreateDeploymentStrategyType:
		if s.RollingUpdate != nil {
			return field.ErrorList{field.Forbidden(path.Child("rollingUpdate"), "may not be specified when strategy `type` is 'Recreate'")}
		}
		return nil
	case appsv1.RollingUpdateDeploymentStrategyType:
	default:
		return field.ErrorList{field.NotSupported(path, s, []appsv1.DeploymentStrategyType{
			appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType,
		})}
	}
	at := path.Child("rollingUpdate")
	if s.RollingUpdate == nil {
		return field.ErrorList{field.Required(at, "this should be defaulted and never be nil")}
	}
	unavailable, surge := s.RollingUpdate.MaxUnavailable, s.RollingUpdate.MaxSurge
	errs := values.ValidateNumberOrPercent(unavailable, at.Child("maxUnavailable"))
	errs = append(errs, values.ValidateNumberOrPercent(surge, at.Child("maxSurge"))...)
	if values.Number(unavailable) == 0 && values.Number(surge) == 0 {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, atMostAll(unavailable, at.Child("maxUnavailable"))...)
}
