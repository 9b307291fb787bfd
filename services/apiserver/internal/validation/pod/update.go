package pod

import (
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const immutableSpec = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"

// ValidateUpdate gives what is wrong with an update of a pod: of its spec only images, the
// deadline (shorter), tolerations (more of them) and, while it is gated, what places it, may
// change.
func ValidateUpdate(pod, old *corev1.Pod) field.ErrorList {
	path := field.NewPath("spec")
	errs := checkSpec(&pod.Spec, pod, path)
	if len(pod.Spec.Containers) != len(old.Spec.Containers) {
		return append(errs, field.Forbidden(path.Child("containers"), "pod updates may not add or remove containers"))
	}
	if len(pod.Spec.InitContainers) != len(old.Spec.InitContainers) {
		return append(errs, field.Forbidden(path.Child("initContainers"), "pod updates may not add or remove containers"))
	}
	errs = append(errs, deadline(pod, old, path.Child("activeDeadlineSeconds"))...)
	errs = append(errs, moreTolerations(pod.Spec.Tolerations, old.Spec.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, gatesUpdate(pod, old, path)...)
	same := pod.Spec.DeepCopy()
	restore(same, &old.Spec)
	if len(old.Spec.SchedulingGates) > 0 {
		same.NodeSelector = old.Spec.NodeSelector
		same.Affinity = old.Spec.Affinity
	}
	if !apiequality.Semantic.DeepEqual(*same, old.Spec) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf("%s\n%v", immutableSpec, cmp.Diff(old.Spec, *same))))
	}
	return errs
}

// restore sets what an update may change back to what it was.
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

func deadline(pod, old *corev1.Pod, path *field.Path) field.ErrorList {
	now, before := pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds
	switch {
	case before == nil:
		return nil
	case now == nil:
		return field.ErrorList{field.Invalid(path, now, "must not update from a positive integer to nil value")}
	case *now > *before:
		return field.ErrorList{field.Invalid(path, *now, "must be less than or equal to previous value")}
	}
	return nil
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

func gatesUpdate(pod, old *corev1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range pod.Spec.SchedulingGates {
		if !slices.Contains(old.Spec.SchedulingGates, gate) {
			errs = append(errs, field.Forbidden(path.Child("schedulingGates").Index(i), "only deletion is allowed, but found new scheduling gate '"+gate.Name+"'"))
		}
	}
	return errs
}

// ValidateStatusUpdate gives what is wrong with an update of a pod's status.
func ValidateStatusUpdate(pod, old *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	path := field.NewPath("status")
	for i, condition := range pod.Status.Conditions {
		errs = append(errs, qualified(string(condition.Type), path.Child("conditions").Index(i).Child("type"))...)
	}
	if name := pod.Status.NominatedNodeName; name != "" {
		errs = append(errs, invalid(path.Child("nominatedNodeName"), name, validation.IsDNS1123Subdomain(name))...)
	}
	if pod.Spec.NodeName != old.Spec.NodeName && pod.Spec.NodeName != "" {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	for i, ip := range pod.Status.PodIPs {
		errs = append(errs, validation.IsValidIP(path.Child("podIPs").Index(i), ip.IP)...)
	}
	errs = append(errs, ended(pod.Status.ContainerStatuses, old.Status.ContainerStatuses, old.Spec.RestartPolicy, path.Child("containerStatuses"))...)
	return errs
}

// ended refuses to bring a container back to life that its restart policy leaves dead.
func ended(now, old []corev1.ContainerStatus, policy corev1.RestartPolicy, path *field.Path) field.ErrorList {
	if policy == corev1.RestartPolicyAlways {
		return nil
	}
	var errs field.ErrorList
	for i, before := range old {
		if before.State.Terminated == nil || policy == corev1.RestartPolicyOnFailure && before.State.Terminated.ExitCode != 0 {
			continue
		}
		for _, status := range now {
			if status.Name == before.Name && status.State.Terminated == nil {
				errs = append(errs, field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}
