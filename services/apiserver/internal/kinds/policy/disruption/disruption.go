// Package disruption decides whether the budget of a pod allows its eviction, with Kubernetes'
// messages. It keeps no state: the registry makes the changes.
package disruption

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// maxDisrupted is how many evictions may wait until the controller sees them.
	maxDisrupted = 2000
	// retrySeconds is the Retry-After while the budget's status is behind its spec.
	retrySeconds = 10

	refused = "Cannot evict pod as it would violate the pod's disruption budget."
)

// Exempt reports whether a pod may be evicted regardless of its budget: a pod that has ended, has
// not started, or is already being deleted serves no requests.
func Exempt(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed ||
		pod.Status.Phase == corev1.PodPending || pod.DeletionTimestamp != nil
}

// Settled reports whether an exempt pod stays exempt because it can never serve requests again.
func Settled(pod *corev1.Pod) bool {
	return Exempt(pod) && (pod.Status.Phase != corev1.PodPending || pod.DeletionTimestamp != nil)
}

// Of returns the budgets that cover a pod. A budget whose selector is invalid covers none.
func Of(pod *corev1.Pod, budgets []*policyv1.PodDisruptionBudget) []*policyv1.PodDisruptionBudget {
	var covering []*policyv1.PodDisruptionBudget
	for _, budget := range budgets {
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			covering = append(covering, budget)
		}
	}
	return covering
}

// Free reports whether a pod may be evicted without charging its budget: it is not ready, and the
// budget either always allows that or has enough healthy pods. The result only holds for the pod in
// its current state.
func Free(pod *corev1.Pod, budget *policyv1.PodDisruptionBudget) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return false
		}
	}
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.DesiredHealthy > 0 && budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy
}

// Charge takes one disruption from the budget, in place, and records the pod, so that the
// controller no longer counts it. If no disruption is left, the error is an API error.
func Charge(budget *policyv1.PodDisruptionBudget, pod string, now time.Time) error {
	status := &budget.Status
	forbidden := func(reason string) error {
		return apierrors.NewForbidden(policyv1.Resource("poddisruptionbudget"), budget.Name, errors.New(reason))
	}
	switch {
	case status.ObservedGeneration < budget.Generation:
		return Unsettled(budget.Name)
	case status.DisruptionsAllowed < 0:
		return forbidden("pdb disruptions allowed is negative")
	case len(status.DisruptedPods) > maxDisrupted:
		return forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller")
	case status.DisruptionsAllowed == 0:
		return tooMany(why(budget), 0)
	}
	status.DisruptionsAllowed--
	if status.DisruptionsAllowed == 0 {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse,
			Reason: policyv1.InsufficientPodsReason, ObservedGeneration: status.ObservedGeneration,
		})
	}
	if status.DisruptedPods == nil {
		status.DisruptedPods = map[string]metav1.Time{}
	}
	status.DisruptedPods[pod] = metav1.NewTime(now).Rfc3339Copy()
	return nil
}

// why returns the reason why a budget allows no disruption.
func why(budget *policyv1.PodDisruptionBudget) string {
	condition := meta.FindStatusCondition(budget.Status.Conditions, policyv1.DisruptionAllowedCondition)
	told := condition != nil && condition.Status == metav1.ConditionFalse && condition.Message != ""
	switch {
	case told && condition.Reason == policyv1.SyncFailedReason: // the numbers cannot be trusted then
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently because it failed sync: %s", budget.Name, condition.Message)
	case budget.Status.CurrentHealthy <= budget.Status.DesiredHealthy:
		return fmt.Sprintf("The disruption budget %s needs %d healthy pods and has %d currently",
			budget.Name, budget.Status.DesiredHealthy, budget.Status.CurrentHealthy)
	case told:
		return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently (%s): %s", budget.Name, condition.Reason, condition.Message)
	}
	return fmt.Sprintf("The disruption budget %s does not allow evicting pods currently", budget.Name)
}

// Unsettled returns the error for a time at which it is unknown whether the named budget allows an
// eviction.
func Unsettled(budget string) error {
	return tooMany(fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget), retrySeconds)
}

func tooMany(cause string, seconds int) error {
	err := apierrors.NewTooManyRequests(refused, seconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{
		Type: policyv1.DisruptionBudgetCause, Message: cause,
	})
	return err
}
