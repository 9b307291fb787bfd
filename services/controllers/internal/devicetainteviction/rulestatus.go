package devicetainteviction

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

// statusPeriod is the shortest time between two writes of a rule's status.
const statusPeriod = 10 * time.Second

// reconcileRule writes into a rule's status how far evictions are.
func (r *reconciler) reconcileRule(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	rule, found := r.rules.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	now := metav1.Now()
	var before metav1.Condition
	if current := meta.FindStatusCondition(rule.Status.Conditions, resourcev1.DeviceTaintConditionEvictionInProgress); current != nil {
		before = *current
		since := now.Sub(before.LastTransitionTime.Time)
		if before.ObservedGeneration == rule.Generation && since >= 0 && since < statusPeriod {
			return reconcile.Result{RequeueAfter: statusPeriod - since}, nil
		}
	}
	condition := r.condition(rule)
	condition.LastTransitionTime = before.LastTransitionTime
	var result reconcile.Result
	if condition.Status == metav1.ConditionTrue {
		result.RequeueAfter = statusPeriod // Pods may end by themselves.
	}
	if condition == before {
		return result, nil
	}
	condition.LastTransitionTime = now
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": rule.UID}, "status": map[string]any{"conditions": []metav1.Condition{condition}},
	})
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("encoding a condition of DeviceTaintRule %s: %w", key, err)
	}
	_, err = r.rules.Client.Patch(ctx, "", rule.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("add condition to DeviceTaintRule status: %w", err)
	}
	return result, nil
}

// condition returns what a rule's status is to say, without a time.
func (r *reconciler) condition(rule *resourcev1.DeviceTaintRule) metav1.Condition {
	r.mu.Lock()
	evicted := r.evicted[rule.UID]
	r.mu.Unlock()
	c := metav1.Condition{
		Type: resourcev1.DeviceTaintConditionEvictionInProgress, Status: metav1.ConditionFalse, ObservedGeneration: rule.Generation,
	}
	switch rule.Spec.Taint.Effect {
	case resourcev1.DeviceTaintEffectNoExecute:
		pods, namespaces := r.pending(rule)
		switch {
		case pods > 0:
			c.Status, c.Reason = metav1.ConditionTrue, "PodsPendingEviction"
			c.Message = count(pods, "pod needs", "pods need") + " to be evicted in " + count(namespaces, "namespace", "different namespaces") + "."
		case evicted > 0:
			c.Reason = "Completed"
		default:
			c.Reason = "NotStarted"
		}
	case resourcev1.DeviceTaintEffectNone:
		pods, namespaces := r.pending(rule)
		published, allocated := r.selected(rule)
		c.Reason = "NoEffect"
		c.Message = count(published, "published device", "published devices") + " selected. " +
			count(allocated, "allocated device", "allocated devices") + " selected. " + count(pods, "pod", "pods") + " would be evicted in " +
			count(namespaces, "namespace", "different namespaces") +
			" if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
	default:
		c.Reason, c.Message = "OtherEffect", "Eviction only happens for the NoExecute effect."
	}
	if evicted > 0 {
		if c.Message != "" {
			c.Message += " "
		}
		c.Message += count(evicted, "pod", "pods") + " evicted since starting the controller."
	}
	return c
}

// count returns a number with a noun.
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// pending returns how many pods must go because of a rule, or would if its effect was NoExecute, and in how
// many namespaces they are.
func (r *reconciler) pending(rule *resourcev1.DeviceTaintRule) (pods, namespaces int) {
	taint := rule.Spec.Taint
	taint.Effect = resourcev1.DeviceTaintEffectNoExecute
	counted, in := map[types.UID]bool{}, map[string]bool{}
	for _, claim := range r.claims.Indexer().List() {
		if !drivesOff(rule, &taint, claim) {
			continue
		}
		for _, pod := range r.users(claim) {
			if pod.DeletionTimestamp == nil && uses(pod, claim) {
				counted[pod.UID], in[pod.Namespace] = true, true
			}
		}
	}
	return len(counted), len(in)
}

// drivesOff reports whether a rule's taint drives off the users of a claim.
func drivesOff(rule *resourcev1.DeviceTaintRule, taint *resourcev1.DeviceTaint, claim *resourcev1.ResourceClaim) bool {
	if claim.Status.Allocation == nil {
		return false
	}
	for i := range claim.Status.Allocation.Devices.Results {
		allocated := &claim.Status.Allocation.Devices.Results[i]
		if !matches(rule, allocated.Driver, allocated.Pool, allocated.Device) {
			continue
		}
		if leaves, _ := departure(taint, allocated.Tolerations); leaves {
			return true
		}
	}
	return false
}

// selected returns how many published and how many allocated devices a rule selects.
func (r *reconciler) selected(rule *resourcev1.DeviceTaintRule) (published, allocated int) {
	pools := map[string]bool{}
	for _, slice := range r.slices.Indexer().List() {
		pools[poolOf(slice)] = true
	}
	for pool := range pools {
		for _, slice := range r.newest(pool) {
			for i := range slice.Spec.Devices {
				if matches(rule, slice.Spec.Driver, slice.Spec.Pool.Name, slice.Spec.Devices[i].Name) {
					published++
				}
			}
		}
	}
	for _, claim := range r.claims.Indexer().List() {
		allocated += selects(rule, claim)
	}
	return published, allocated
}
