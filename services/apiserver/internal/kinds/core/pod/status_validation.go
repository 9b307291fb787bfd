package pod

import (
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/podspec"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/values"
)

// validateStatusUpdate validates an update of a pod's status.
func validateStatusUpdate(pod, old *corev1.Pod) field.ErrorList {
	meta, path := field.NewPath("metadata"), field.NewPath("status")
	errs := podspec.AnnotationsUpdate(pod, old, meta.Child("annotations"))
	errs = append(errs, podspec.Annotations(pod.Annotations, &pod.Spec, meta.Child("annotations"))...)
	errs = append(errs, conditions(pod.Status.Conditions, path.Child("conditions"))...)
	if pod.Spec.NodeName != old.Spec.NodeName {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	if name := pod.Status.NominatedNodeName; name != "" && name != old.Status.NominatedNodeName {
		errs = append(errs, values.Invalid(path.Child("nominatedNodeName"), name, apivalidation.NameIsDNSSubdomain(name, false))...)
		if old.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(path.Child("nominatedNodeName"), "may not be set on pods that are already bound to a node"))
		}
	}
	errs = append(errs, observed(pod.Status.ObservedGeneration, path)...)
	if old.Status.QOSClass != "" { // Creation sets it.
		errs = append(errs, apivalidation.ValidateImmutableField(pod.Status.QOSClass, old.Status.QOSClass, path.Child("qosClass"))...)
	}
	errs = append(errs, ended(pod.Status.ContainerStatuses, old.Status.ContainerStatuses, &old.Spec, path.Child("containerStatuses"))...)
	errs = append(errs, ended(pod.Status.InitContainerStatuses, old.Status.InitContainerStatuses, &old.Spec, path.Child("initContainerStatuses"))...)
	never := &corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever} // Ephemeral containers are not restarted.
	errs = append(errs, ended(pod.Status.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses, never, path.Child("ephemeralContainerStatuses"))...)
	errs = append(errs, claimStatuses(pod, path.Child("resourceClaimStatuses"))...)
	errs = append(errs, extendedClaim(pod.Status.ExtendedResourceClaimStatus, &pod.Spec, path.Child("extendedResourceClaimStatus"))...)
	errs = append(errs, addresses(&pod.Status, &old.Status, path)...)
	system := corev1.Linux
	if pod.Spec.OS != nil {
		system = pod.Spec.OS.Name
	}
	for _, list := range []struct {
		name       string
		statuses   []corev1.ContainerStatus
		containers *[]corev1.Container // nil if they cannot have devices
	}{
		{"containerStatuses", pod.Status.ContainerStatuses, &pod.Spec.Containers},
		{"initContainerStatuses", pod.Status.InitContainerStatuses, &pod.Spec.InitContainers},
		{"ephemeralContainerStatuses", pod.Status.EphemeralContainerStatuses, nil},
	} {
		for i := range list.statuses {
			at := path.Child(list.name).Index(i)
			errs = append(errs, statusUser(list.statuses[i].User, system, at.Child("user", "linux"))...)
			errs = append(errs, allocated(&list.statuses[i], list.containers, pod.Status.ExtendedResourceClaimStatus, at.Child("allocatedResourcesStatus"))...)
		}
	}
	return errs
}

func conditions(list []corev1.PodCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, condition := range list {
		errs = append(errs, observed(condition.ObservedGeneration, path.Index(i))...)
		errs = append(errs, values.QualifiedName(string(condition.Type), path.Index(i).Child("Type"))...)
	}
	return errs
}

func observed(generation int64, path *field.Path) field.ErrorList {
	if generation < 0 {
		return field.ErrorList{field.Invalid(path.Child("observedGeneration"), generation, "must be a non-negative integer")}
	}
	return nil
}

// ended rejects reviving a container that neither its pod's restart policy nor its own restarts.
func ended(now, old []corev1.ContainerStatus, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, before := range old {
		end := before.State.Terminated
		if end == nil || restartable(spec, before.Name, end.ExitCode) {
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

// restartable reports whether a container that exited with code may run again.
func restartable(spec *corev1.PodSpec, name string, code int32) bool {
	policy := spec.RestartPolicy
	for _, list := range [][]corev1.Container{spec.Containers, spec.InitContainers} {
		for i := range list {
			c := &list[i]
			if slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
				return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
			}) {
				return true // Any container may restart all others.
			}
			if c.Name != name {
				continue
			}
			if ruled(c.RestartPolicyRules, code) {
				return true
			}
			if c.RestartPolicy != nil {
				policy = corev1.RestartPolicy(*c.RestartPolicy)
			}
		}
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && code != 0
}

// ruled reports whether a rule restarts a container that exited with code.
func ruled(rules []corev1.ContainerRestartRule, code int32) bool {
	for _, rule := range rules {
		if rule.ExitCodes == nil {
			continue
		}
		listed := slices.Contains(rule.ExitCodes.Values, code)
		if listed == (rule.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return true
		}
	}
	return false
}

// addresses checks the addresses of a pod and of its node: at most one of each family.
func addresses(s, old *corev1.PodStatus, path *field.Path) field.ErrorList {
	at, ips := path.Child("podIPs"), podIPs(s)
	errs := dualStack(ips, podIPs(old), s.PodIPs, at)
	switch {
	case (s.PodIP != "") != (len(ips) > 0):
		errs = append(errs, field.Invalid(at, s.PodIPs, "podIP and podIPs must either both be set or both be unset"))
	case len(ips) > 0 && ips[0] != s.PodIP:
		errs = append(errs, field.Invalid(at.Index(0).Child("ip"), ips[0], "must be equal to `podIP`"))
	}
	at, ips = path.Child("hostIPs"), hostIPs(s)
	if len(ips) > 0 && ips[0] != s.HostIP {
		errs = append(errs, field.Invalid(at.Index(0).Child("ip"), ips[0], "must be equal to `hostIP`"))
	}
	return append(errs, dualStack(ips, hostIPs(old), s.HostIPs, at)...)
}

func podIPs(s *corev1.PodStatus) []string {
	var ips []string
	for _, ip := range s.PodIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

func hostIPs(s *corev1.PodStatus) []string {
	var ips []string
	for _, ip := range s.HostIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

// addressWarnings returns the warnings about addresses in a form that not all programs understand.
func addressWarnings(s *corev1.PodStatus) []string {
	var found []string
	for i, ip := range s.PodIPs {
		found = append(found, network.IPWarnings(field.NewPath("status", "podIPs").Index(i).Child("ip"), ip.IP)...)
	}
	for i, ip := range s.HostIPs {
		found = append(found, network.IPWarnings(field.NewPath("status", "hostIPs").Index(i).Child("ip"), ip.IP)...)
	}
	return found
}

// dualStack checks the addresses in a list, which is all in the error. Those in old may stay as they are.
func dualStack(ips, old []string, all any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range ips {
		errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i), ip, true, old)...)
	}
	if len(ips) < 2 {
		return errs
	}
	dual, err := netutils.IsDualStackIPStrings(ips)
	if err != nil {
		errs = append(errs, field.InternalError(path, fmt.Errorf("failed to check for dual stack with error:%w", err)))
	}
	if !dual || len(ips) > 2 {
		errs = append(errs, field.Invalid(path, all, "may specify no more than one IP for each IP family"))
	}
	return errs
}

// statusUser checks the user that a container runs as.
func statusUser(user *corev1.ContainerUser, system corev1.OSName, path *field.Path) field.ErrorList {
	if user == nil || user.Linux == nil {
		return nil
	}
	if system == corev1.Windows {
		return field.ErrorList{field.Forbidden(path, "cannot be set for a windows pod")}
	}
	var errs field.ErrorList
	if id := user.Linux.UID; id < 0 || id > math.MaxUint32 { // Any that a runtime may report.
		errs = append(errs, field.Invalid(path.Child("uid"), id, validation.InclusiveRangeError(0, math.MaxUint32)))
	}
	errs = append(errs, podspec.GroupID(&user.Linux.GID, path.Child("gid"))...)
	for i := range user.Linux.SupplementalGroups {
		errs = append(errs, podspec.GroupID(&user.Linux.SupplementalGroups[i], path.Child("supplementalGroups").Index(i))...)
	}
	return errs
}
