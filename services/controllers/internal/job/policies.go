package job

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// verdict is what the pod failure policy says of a failed pod.
type verdict struct {
	// action is that of the rule that matches first; empty if none does.
	action batchv1.PodFailurePolicyAction
	// message says why the Job fails; empty unless action is FailJob.
	message string
}

// counts reports whether the failure counts against the limits of retries.
func (v verdict) counts() bool { return v.action != batchv1.PodFailurePolicyActionIgnore }

// judge applies the pod failure policy to a failed pod. Rules with an unknown action do not match.
func judge(policy *batchv1.PodFailurePolicy, pod *corev1.Pod) verdict {
	if policy == nil {
		return verdict{}
	}
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		var why string
		if rule.OnExitCodes != nil {
			if status := exited(pod, rule.OnExitCodes); status != nil {
				why = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d matching %s rule at index %d",
					status.Name, pod.Namespace, pod.Name, status.State.Terminated.ExitCode, rule.Action, i)
			}
		} else if condition := matchConditions(pod, rule.OnPodConditions); condition != nil {
			why = fmt.Sprintf("Pod %s/%s has condition %s matching %s rule at index %d", pod.Namespace, pod.Name, condition.Type, rule.Action, i)
		}
		switch {
		case why == "":
		case rule.Action == batchv1.PodFailurePolicyActionFailJob:
			return verdict{action: rule.Action, message: why}
		case rule.Action == batchv1.PodFailurePolicyActionIgnore, rule.Action == batchv1.PodFailurePolicyActionCount,
			rule.Action == batchv1.PodFailurePolicyActionFailIndex:
			return verdict{action: rule.Action}
		}
	}
	return verdict{}
}

// exited returns the first container whose exit code meets a requirement: ordinary containers go before
// init containers, and an exit code 0 never does.
func exited(pod *corev1.Pod, of *batchv1.PodFailurePolicyOnExitCodesRequirement) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			status := &statuses[i]
			if status.State.Terminated == nil || status.State.Terminated.ExitCode == 0 ||
				of.ContainerName != nil && *of.ContainerName != status.Name {
				continue
			}
			listed := slices.Contains(of.Values, status.State.Terminated.ExitCode)
			if of.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && listed ||
				of.Operator == batchv1.PodFailurePolicyOnExitCodesOpNotIn && !listed {
				return status
			}
		}
	}
	return nil
}

func matchConditions(pod *corev1.Pod, patterns []batchv1.PodFailurePolicyOnPodConditionsPattern) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		condition := &pod.Status.Conditions[i]
		if slices.ContainsFunc(patterns, func(p batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return p.Type == condition.Type && p.Status == condition.Status
		}) {
			return condition
		}
	}
	return nil
}

// meets returns the message of the first rule of a success policy that the succeeded indexes meet; "" if
// none is met.
func meets(policy *batchv1.SuccessPolicy, completions int, succeeded indexes) string {
	if policy == nil || len(succeeded) == 0 {
		return ""
	}
	for i := range policy.Rules {
		rule := &policy.Rules[i]
		have, all := succeeded.total(), -1
		if rule.SucceededIndexes != nil {
			required := parseIndexes(*rule.SucceededIndexes, completions)
			if len(required) == 0 {
				continue
			}
			have, all = required.common(succeeded), required.total()
		}
		if have == all || rule.SucceededCount != nil && have >= int(*rule.SucceededCount) {
			return fmt.Sprintf("Matched rules at index %d", i)
		}
	}
	return ""
}
