package disruption

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

// newStatus returns a budget's status for the given counts.
func newStatus(budget *policyv1.PodDisruptionBudget, healthy, desired, expected int32,
	disrupted map[string]metav1.Time) policyv1.PodDisruptionBudgetStatus {
	allowed := max(healthy-desired, 0)
	if expected <= 0 {
		// A budget without pods must be safe when its first pods come.
		allowed = 0
	}
	status := policyv1.PodDisruptionBudgetStatus{
		CurrentHealthy: healthy, DesiredHealthy: desired, ExpectedPods: expected, DisruptionsAllowed: allowed,
		DisruptedPods: disrupted, ObservedGeneration: budget.Generation, Conditions: slices.Clone(budget.Status.Conditions),
	}
	condition := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
		ObservedGeneration: budget.Generation,
	}
	if allowed > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	apimeta.SetStatusCondition(&status.Conditions, condition)
	return status
}

// failSafe forbids evictions while a budget's status cannot be computed, and reports why.
func (r *reconciler) failSafe(ctx context.Context, budget *policyv1.PodDisruptionBudget, fault error) error {
	status := *budget.Status.DeepCopy()
	status.DisruptionsAllowed = 0
	apimeta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason,
		Message: fault.Error(), ObservedGeneration: status.ObservedGeneration,
	})
	return r.write(ctx, budget, status)
}

// countHealthy counts the pods that are ready and not about to be deleted.
func countHealthy(pods []*corev1.Pod, disrupted map[string]metav1.Time, now time.Time) int32 {
	var healthy int32
	for _, pod := range pods {
		if pod.DeletionTimestamp != nil || !podstate.Ready(pod) {
			continue
		}
		if at, found := disrupted[pod.Name]; found && at.Add(deletionTimeout).After(now) {
			continue
		}
		healthy++
	}
	return healthy
}

// disruptedPods returns the evicted pods of a budget whose deletion is not visible yet. recheck is
// the wait until the first of them counts again; 0 if there is none.
func (r *reconciler) disruptedPods(budget *policyv1.PodDisruptionBudget, pods []*corev1.Pod, now time.Time) (
	map[string]metav1.Time, time.Duration) {
	var waiting map[string]metav1.Time
	var recheck time.Duration
	for _, pod := range pods {
		at, found := budget.Status.DisruptedPods[pod.Name]
		if !found || pod.DeletionTimestamp != nil {
			continue
		}
		left := at.Add(deletionTimeout).Sub(now)
		if left < 0 {
			r.logger.Info("pod was expected to be deleted but it wasn't, updating its disruption budget",
				"namespace", pod.Namespace, "name", pod.Name, "since", at, "budget", budget.Name)
			r.events.Event(pod, corev1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s/%s to be deleted but it wasn't",
				budget.Namespace, budget.Name)
			continue
		}
		if waiting == nil {
			waiting = map[string]metav1.Time{}
		}
		waiting[pod.Name] = at
		// At the exact moment of its timeout the pod still counts as disrupted.
		if left++; recheck == 0 || left < recheck {
			recheck = left
		}
	}
	return waiting, recheck
}
