package apps

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/volume"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/claim"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/podspec"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// validateStatefulSet validates a new stateful set.
func validateStatefulSet(s *appsv1.StatefulSet) field.ErrorList {
	path := field.NewPath("spec")
	errs := apivalidation.ValidateObjectMeta(&s.ObjectMeta, true, apivalidation.NameIsDNSLabel, field.NewPath("metadata"))
	errs = append(errs, statefulSetSpec(&s.Spec, nil, false, path)...)
	if s.Spec.ServiceName != "" {
		for _, msg := range utilvalidation.IsDNS1123Label(s.Spec.ServiceName) {
			errs = append(errs, field.Invalid(path.Child("serviceName"), s.Spec.ServiceName, msg))
		}
	}
	for i := range s.Spec.VolumeClaimTemplates {
		errs = append(errs, claim.Spec(&s.Spec.VolumeClaimTemplates[i].Spec, nil, path.Child("volumeClaimTemplates").Index(i).Child("spec"))...)
	}
	return errs
}

// validateStatefulSetUpdate validates an update of a stateful set. The fields that identify its pods and
// select them are immutable.
func validateStatefulSetUpdate(s, old *appsv1.StatefulSet) field.ErrorList {
	path, was := field.NewPath("spec"), &old.Spec
	// A set that was valid only before some check existed can still be changed, and deleted.
	excused := len(statefulSetSpec(was, &was.Template, false, path)) > 0
	errs := statefulSetSpec(&s.Spec, &was.Template, excused, path)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.Selector, was.Selector, path.Child("selector"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.VolumeClaimTemplates, was.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.ServiceName, was.ServiceName, path.Child("serviceName"))...)
	return append(errs, apivalidation.ValidateImmutableField(s.Spec.PodManagementPolicy, was.PodManagementPolicy, path.Child("podManagementPolicy"))...)
}

// validateStatefulSetStatus validates an update of a stateful set's status.
func validateStatefulSetStatus(s, old *appsv1.StatefulSet) field.ErrorList {
	path, status := field.NewPath("status"), &s.Status
	errs := counts(path, status.Replicas, status.ReadyReplicas, status.AvailableReplicas, "cannot be greater than status.readyReplicas", nil,
		count{"currentReplicas", status.CurrentReplicas}, count{"updatedReplicas", status.UpdatedReplicas})
	errs = append(errs, nonnegative(status.ObservedGeneration, path.Child("observedGeneration"))...)
	return append(errs, collisions(status.CollisionCount, old.Status.CollisionCount, path.Child("collisionCount"))...)
}

// statefulSetSpec checks the spec of a stateful set, but not what is immutable. was is the template that an
// update replaces, nil at creation. The pods of an excused set are not checked.
func statefulSetSpec(spec *appsv1.StatefulSetSpec, was *corev1.PodTemplateSpec, excused bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch at := path.Child("podManagementPolicy"); spec.PodManagementPolicy {
	case "":
		errs = append(errs, field.Required(at, ""))
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(at, spec.PodManagementPolicy,
			fmt.Sprintf("must be '%s' or '%s'", appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement)))
	}
	errs = append(errs, statefulSetStrategy(&spec.UpdateStrategy, path.Child("updateStrategy"))...)
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		at := path.Child("persistentVolumeClaimRetentionPolicy")
		errs = append(errs, retention(policy.WhenDeleted, at.Child("whenDeleted"))...)
		errs = append(errs, retention(policy.WhenScaled, at.Child("whenScaled"))...)
	}
	errs = append(errs, validateReplicas(spec.Replicas, path)...)
	errs = append(errs, nonnegative(int64(spec.MinReadySeconds), path.Child("minReadySeconds"))...)
	if spec.Ordinals != nil {
		errs = append(errs, nonnegative(int64(spec.Ordinals.Start), path.Child("ordinals", "start"))...)
	}
	wellFormed, wrong := selected(spec.Selector, &spec.Template, "statefulset", "", path)
	errs = append(errs, wrong...)
	at := path.Child("template")
	if wellFormed {
		errs = append(errs, statefulPods(spec, was, excused, at)...)
	}
	return append(errs, lasting(&spec.Template.Spec, "StatefulSet", at.Child("spec"))...)
}

// statefulPods checks the template of a stateful set as its pods will be: with volumes for its claims, and
// with the host name and the subdomain that the controller gives them.
func statefulPods(spec *appsv1.StatefulSetSpec, was *corev1.PodTemplateSpec, excused bool, path *field.Path) field.ErrorList {
	if excused {
		errs := metav1validation.ValidateLabels(spec.Template.Labels, path.Child("labels"))
		errs = append(errs, apivalidation.ValidateAnnotations(spec.Template.Annotations, path.Child("annotations"))...)
		return append(errs, podspec.Annotations(spec.Template.Annotations, &spec.Template.Spec, path.Child("annotations"))...)
	}
	pods := volume.WithClaims(&spec.Template, spec.VolumeClaimTemplates)
	if pods.Spec.Hostname != "" || pods.Spec.Subdomain != "" {
		pods = pods.DeepCopy()
		pods.Spec.Hostname, pods.Spec.Subdomain = "", ""
	}
	return podspec.Template(pods, was, path)
}

func statefulSetStrategy(s *appsv1.StatefulSetUpdateStrategy, path *field.Path) field.ErrorList {
	r, at := s.RollingUpdate, path.Child("rollingUpdate")
	switch s.Type {
	case "":
		return field.ErrorList{field.Required(path, "")}
	case appsv1.OnDeleteStatefulSetStrategyType:
		if r != nil {
			return field.ErrorList{field.Invalid(at, r, fmt.Sprintf("only allowed for updateStrategy '%s'", appsv1.RollingUpdateStatefulSetStrategyType))}
		}
		return nil
	case appsv1.RollingUpdateStatefulSetStrategyType:
	default:
		return field.ErrorList{field.Invalid(path, *s,
			fmt.Sprintf("must be '%s' or '%s'", appsv1.RollingUpdateStatefulSetStrategyType, appsv1.OnDeleteStatefulSetStrategyType))}
	}
	var errs field.ErrorList
	if r == nil {
		return nil
	}
	if r.Partition != nil {
		errs = append(errs, nonnegative(int64(*r.Partition), at.Child("partition"))...)
	}
	if r.MaxUnavailable != nil {
		at = at.Child("maxUnavailable")
		errs = append(errs, values.ValidateNumberOrPercent(r.MaxUnavailable, at)...)
		if values.Number(r.MaxUnavailable) == 0 {
			errs = append(errs, field.Invalid(at, *r.MaxUnavailable, "cannot be 0"))
		}
		errs = append(errs, atMostAll(r.MaxUnavailable, at)...)
	}
	return errs
}

func retention(policy appsv1.PersistentVolumeClaimRetentionPolicyType, path *field.Path) field.ErrorList {
	allowed := []appsv1.PersistentVolumeClaimRetentionPolicyType{
		appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	if slices.Contains(allowed, policy) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, policy, allowed)}
}
