package pod

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/podspec"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

const immutableSpec = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// validateUpdate validates an update of a pod. In its spec only images, the deadline (which may
// only shrink), tolerations (which may only be added) and, while the pod is gated, its placement
// may change.
func validateUpdate(pod, old *corev1.Pod) field.ErrorList {
	path, meta := field.NewPath("spec"), field.NewPath("metadata", "annotations")
	errs := podspec.MetadataAndSpec(pod, old)
	errs = append(errs, podspec.AnnotationsUpdate(pod, old, meta)...)
	if len(pod.Spec.Containers) != len(old.Spec.Containers) {
		return append(errs, field.Forbidden(path.Child("containers"), "pod updates may not add or remove containers"))
	}
	if len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(path.Child("initContainers"), "pod updates may not add or remove containers"))
	}
	stop, wrong := deadline(pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds, path.Child("activeDeadlineSeconds"))
	if errs = append(errs, wrong...); stop {
		return errs
	}
	errs = append(errs, moreTolerations(pod.Spec.Tolerations, old.Spec.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, gatesUpdate(pod, old, path)...)
	same := pod.Spec.DeepCopy()
	restore(same, &old.Spec)
	if len(old.Spec.SchedulingGates) > 0 {
		errs = append(errs, gatedUpdate(same, &old.Spec, path)...)
	}
	if !apiequality.Semantic.DeepEqual(*same, old.Spec) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("%s\n%v", immutableSpec, values.Changes(old.Spec, *same))))
	}
	return errs
}

// restore reverts what an update may change.
func restore(spec, old *corev1.PodSpec) {
	for i := range spec.Containers {
		spec.Containers[i].Image = old.Containers[i].Image
	}
	for i := range spec.InitContainers {
		spec.InitContainers[i].Image = old.InitContainers[i].Image
	}
	spec.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	spec.Tolerations = old.Tolerations
	spec.SchedulingGates = old.SchedulingGates
	if old.TerminationGracePeriodSeconds != nil && *old.TerminationGracePeriodSeconds < 0 &&
		spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds == 1 {
		spec.TerminationGracePeriodSeconds = old.TerminationGracePeriodSeconds
	}
}

// deadline checks a change of a pod's deadline. stop means that nothing else is checked.
func deadline(now, before *int64, path *field.Path) (stop bool, errs field.ErrorList) {
	switch {
	case now == nil && before == nil:
		return false, nil
	case now == nil:
		return false, field.ErrorList{field.Invalid(path, now, "must not update from a positive integer to nil value")}
	case *now < 0 || *now > math.MaxInt32:
		return true, field.ErrorList{field.Invalid(path, *now, validation.InclusiveRangeError(0, math.MaxInt32))}
	case before != nil && *now > *before:
		return true, field.ErrorList{field.Invalid(path, *now, "must be less than or equal to previous value")}
	}
	return false, nil
}

func moreTolerations(now, old []corev1.Toleration, path *field.Path) field.ErrorList {
	for _, before := range old {
		kept := slices.ContainsFunc(now, func(t corev1.Toleration) bool {
			t.TolerationSeconds, before.TolerationSeconds = nil, nil
			return apiequality.Semantic.DeepEqual(t, before)
		})
		if !kept {
			return field.ErrorList{field.Forbidden(path, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return nil
}

// gatesUpdate checks that an update only removes gates. It rejects a new one once.
func gatesUpdate(pod, old *corev1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range pod.Spec.SchedulingGates {
		if !slices.Contains(old.Spec.SchedulingGates, gate) && !slices.Contains(pod.Spec.SchedulingGates[i+1:], gate) {
			errs = append(errs, field.Forbidden(path.Child("schedulingGates").Index(i).Child("name"), "only deletion is allowed, but found new scheduling gate '"+gate.Name+"'"))
		}
	}
	return errs
}

// gatedUpdate checks a change of the placement of a gated pod, which may only narrow it, and
// reverts it.
func gatedUpdate(spec, old *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for key, value := range old.NodeSelector {
		if now, ok := spec.NodeSelector[key]; !ok || now != value {
			errs = append(errs, field.Invalid(path.Child("nodeSelector"), spec.NodeSelector,
				"only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	spec.NodeSelector = old.NodeSelector
	var now, was *corev1.NodeAffinity
	if spec.Affinity != nil {
		now = spec.Affinity.NodeAffinity
	}
	if old.Affinity != nil {
		was = old.Affinity.NodeAffinity
	}
	if apiequality.Semantic.DeepEqual(now, was) {
		return errs
	}
	at := path.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	errs = append(errs, gatedTerms(requiredTerms(now), requiredTerms(was), at)...)
	switch {
	case spec.Affinity == nil:
		spec.Affinity = &corev1.Affinity{NodeAffinity: was}
	case old.Affinity == nil && spec.Affinity.PodAffinity == nil && spec.Affinity.PodAntiAffinity == nil:
		spec.Affinity = nil
	default:
		spec.Affinity.NodeAffinity = was
	}
	return errs
}

func requiredTerms(a *corev1.NodeAffinity) []corev1.NodeSelectorTerm {
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// gatedTerms checks that existing terms have only gained requirements.
func gatedTerms(now, was []corev1.NodeSelectorTerm, path *field.Path) field.ErrorList {
	if len(was) == 0 {
		return nil
	}
	if len(was) != len(now) {
		return field.ErrorList{field.Invalid(path, now, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	begins := func(now, was []corev1.NodeSelectorRequirement) bool {
		return len(now) >= len(was) && (len(was) == 0 || apiequality.Semantic.DeepEqual(now[:len(was)], was))
	}
	var errs field.ErrorList
	for i := range was {
		none := len(was[i].MatchExpressions) == 0 && len(was[i].MatchFields) == 0 // Such a term matches nothing.
		some := len(now[i].MatchExpressions) > 0 || len(now[i].MatchFields) > 0
		if none && some || !begins(now[i].MatchExpressions, was[i].MatchExpressions) || !begins(now[i].MatchFields, was[i].MatchFields) {
			errs = append(errs, field.Invalid(path.Index(i), now[i], "only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}
