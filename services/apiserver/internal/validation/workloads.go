package validation

import (
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/validation/pod"
)

// Deployment gives what is wrong with a deployment.
func Deployment(d *appsv1.Deployment) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMeta(&d.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, workload(d.Spec.Replicas, d.Spec.Selector, &d.Spec.Template, path)...)
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

// DeploymentUpdate gives what is wrong with an update of a deployment.
func DeploymentUpdate(d, old *appsv1.Deployment) field.ErrorList {
	return append(Deployment(d), apivalidation.ValidateImmutableField(d.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

// DeploymentStatus gives what is wrong with an update of a deployment's status.
func DeploymentStatus(d, old *appsv1.Deployment) field.ErrorList {
	path, s := field.NewPath("status"), &d.Status
	errs := nonnegative(s.ObservedGeneration, path.Child("observedGeneration"))
	errs = append(errs, nonnegative(int64(s.Replicas), path.Child("replicas"))...)
	for _, count := range []struct {
		name  string
		value int32
	}{
		{"updatedReplicas", s.UpdatedReplicas}, {"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas},
	} {
		errs = append(errs, nonnegative(int64(count.value), path.Child(count.name))...)
		if count.value > s.Replicas {
			errs = append(errs, field.Invalid(path.Child(count.name), count.value, "cannot be greater than status.replicas"))
		}
	}
	errs = append(errs, nonnegative(int64(s.UnavailableReplicas), path.Child("unavailableReplicas"))...)
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	errs = append(errs, collisions(s.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
	return errs
}

func collisions(now, old *int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if now != nil {
		errs = append(errs, nonnegative(int64(*now), path)...)
	}
	if old == nil {
		return errs
	}
	var count int32
	if now != nil {
		count = *now
	}
	if count < *old {
		errs = append(errs, field.Invalid(path, count, "cannot be decremented"))
	}
	return errs
}

// ReplicaSet gives what is wrong with a replica set.
func ReplicaSet(rs *appsv1.ReplicaSet) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMeta(&rs.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	errs = append(errs, workload(rs.Spec.Replicas, rs.Spec.Selector, &rs.Spec.Template, path)...)
	return append(errs, nonnegative(int64(rs.Spec.MinReadySeconds), path.Child("minReadySeconds"))...)
}

// ReplicaSetUpdate gives what is wrong with an update of a replica set.
func ReplicaSetUpdate(rs, old *appsv1.ReplicaSet) field.ErrorList {
	return append(ReplicaSet(rs), apivalidation.ValidateImmutableField(rs.Spec.Selector, old.Spec.Selector, field.NewPath("spec", "selector"))...)
}

// ReplicaSetStatus gives what is wrong with a replica set's status.
func ReplicaSetStatus(rs, _ *appsv1.ReplicaSet) field.ErrorList {
	path, s := field.NewPath("status"), &rs.Status
	errs := nonnegative(s.ObservedGeneration, path.Child("observedGeneration"))
	errs = append(errs, nonnegative(int64(s.Replicas), path.Child("replicas"))...)
	for _, count := range []struct {
		name  string
		value int32
	}{
		{"fullyLabeledReplicas", s.FullyLabeledReplicas}, {"readyReplicas", s.ReadyReplicas}, {"availableReplicas", s.AvailableReplicas},
	} {
		errs = append(errs, nonnegative(int64(count.value), path.Child(count.name))...)
		if count.value > s.Replicas {
			errs = append(errs, field.Invalid(path.Child(count.name), count.value, "cannot be greater than status.replicas"))
		}
	}
	if s.AvailableReplicas > s.ReadyReplicas {
		errs = append(errs, field.Invalid(path.Child("availableReplicas"), s.AvailableReplicas, "cannot be greater than readyReplicas"))
	}
	return errs
}

// workload checks what deployments and replica sets have in common: how many pods of which
// template, found by which selector.
func workload(replicas *int32, selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if replicas != nil {
		errs = append(errs, nonnegative(int64(*replicas), path.Child("replicas"))...)
	}
	if selector == nil {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	} else {
		errs = append(errs, metav1validation.ValidateLabelSelector(selector, metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(path.Child("selector"), selector, "empty selector is invalid for deployment"))
		}
	}
	at := path.Child("template")
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		errs = append(errs, field.Invalid(path.Child("selector"), selector, "invalid label selector"))
	} else if !parsed.Empty() && !parsed.Matches(labels.Set(template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, pod.Template(template, at)...)
	if template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("spec", "restartPolicy"), template.Spec.RestartPolicy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(at.Child("spec", "activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported"))
	}
	return errs
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
	errs := numberOrPercent(unavailable, at.Child("maxUnavailable"))
	errs = append(errs, numberOrPercent(surge, at.Child("maxSurge"))...)
	if number(unavailable) == 0 && number(surge) == 0 {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
	}
	if unavailable != nil && unavailable.Type == intstr.String && number(unavailable) > 100 {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), unavailable, "must not be greater than 100%"))
	}
	return errs
}

func numberOrPercent(value *intstr.IntOrString, path *field.Path) field.ErrorList {
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if value.Type == intstr.Int {
		return nonnegative(int64(value.IntVal), path)
	}
	var errs field.ErrorList
	for _, msg := range validation.IsValidPercent(value.StrVal) {
		errs = append(errs, field.Invalid(path, value, msg))
	}
	return errs
}

// number is the number in a number or percentage; 0 when it has none.
func number(value *intstr.IntOrString) int {
	if value == nil {
		return 0
	}
	if value.Type == intstr.Int {
		return int(value.IntVal)
	}
	if len(value.StrVal) == 0 {
		return 0
	}
	n, err := strconv.Atoi(value.StrVal[:len(value.StrVal)-1])
	if err != nil {
		return 0
	}
	return n
}

// ControllerRevision gives what is wrong with a controller revision.
func ControllerRevision(r *appsv1.ControllerRevision) field.ErrorList {
	errs := apivalidation.ValidateObjectMeta(&r.ObjectMeta, true, apivalidation.NameIsDNSSubdomain, field.NewPath("metadata"))
	if len(r.Data.Raw) == 0 && r.Data.Object == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	}
	return append(errs, nonnegative(r.Revision, field.NewPath("revision"))...)
}

// ControllerRevisionUpdate gives what is wrong with an update: the data never changes.
func ControllerRevisionUpdate(r, old *appsv1.ControllerRevision) field.ErrorList {
	errs := ControllerRevision(r)
	if !apiequality.Semantic.DeepEqual(r.Data, old.Data) {
		errs = append(errs, field.Invalid(field.NewPath("data"), fmt.Sprintf("%d bytes", len(r.Data.Raw)), apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

func nonnegative(value int64, path *field.Path) field.ErrorList {
	return apivalidation.ValidateNonnegativeField(value, path)
}
