package eviction_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/core/eviction"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
	"github.com/garboard/garboard/services/apiserver/internal/registry/registrytest"
)

func evict(w *registrytest.World, name string, opts *metav1.DeleteOptions) error {
	return eviction.Evict(w.T.Context(), w.Registry, "default", name,
		&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}, DeleteOptions: opts}, metav1.CreateOptions{})
}

// TestEviction covers the table of Kubernetes' rules.
func TestEvict(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	always := func(s *policyv1.PodDisruptionBudgetSpec) {
		policy := policyv1.AlwaysAllow
		s.UnhealthyPodEvictionPolicy = &policy
	}
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	allows := func(n int32) policyv1.PodDisruptionBudgetStatus {
		return policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: n, CurrentHealthy: 2, DesiredHealthy: 2}
	}
	const processed = "The disruption budget b is still being processed by the server."
	const needs = "The disruption budget b needs 2 healthy pods and has 2 currently"
	failed := func(reason string, healthy int32) policyv1.PodDisruptionBudgetStatus {
		s := allows(0)
		s.CurrentHealthy = healthy
		s.Conditions = []metav1.Condition{{
			Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: "no luck", LastTransitionTime: metav1.Now(),
		}}
		return s
	}
	for name, tc := range map[string]struct {
		unready bool
		change  func(*corev1.Pod)
		spec    func(*policyv1.PodDisruptionBudgetSpec)
		status  *policyv1.PodDisruptionBudgetStatus // no budget if nil
		cause   string                              // "" means that the pod is evicted
		retry   int32
		left    int32
	}{
		"no budget":              {},
		"allowed":                {status: new(allows(2)), left: 1},
		"the last":               {status: new(allows(1)), left: 0},
		"none left":              {status: new(allows(0)), cause: needs},
		"status behind":          {status: &policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 5}, cause: processed, retry: 10, left: 5},
		"succeeded":              {status: new(allows(0)), change: phase(corev1.PodSucceeded)},
		"failed":                 {status: new(allows(0)), change: phase(corev1.PodFailed)},
		"pending":                {status: new(allows(0)), change: phase(corev1.PodPending)},
		"unready, enough others": {unready: true, status: new(allows(0))},
		"unready, too few others": {
			unready: true, status: &policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 1, DesiredHealthy: 2},
			cause: "The disruption budget b needs 2 healthy pods and has 1 currently",
		},
		"unready, none wanted": {
			unready: true, status: &policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1}, cause: "The disruption budget b needs 0 healthy pods and has 0 currently",
		},
		"unready, always": {
			unready: true, spec: always, status: &policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 1, DesiredHealthy: 2},
		},
		"ready, always": {spec: always, status: new(allows(0)), cause: needs},
		"failed sync": {
			status: new(failed(policyv1.SyncFailedReason, 1)),
			cause:  "The disruption budget b does not allow evicting pods currently because it failed sync: no luck",
		},
		"told why": {
			status: new(failed("Rocket", 5)), cause: "The disruption budget b does not allow evicting pods currently (Rocket): no luck",
		},
		"no reason given": {
			status: &policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 5, DesiredHealthy: 2},
			cause:  "The disruption budget b does not allow evicting pods currently",
		},
	} {
		t.Run(name, func(t *testing.T) {
			ready := corev1.ConditionTrue
			if tc.unready {
				ready = corev1.ConditionFalse
			}
			registrytest.RunningPod(w, "p", ready)
			pods, budgets := registrytest.Of[*corev1.Pod](w), registrytest.Of[*policyv1.PodDisruptionBudget](w)
			if tc.change != nil {
				registrytest.SetStatus(w, "p", tc.change)
			}
			if tc.status != nil {
				change := []func(*policyv1.PodDisruptionBudgetSpec){}
				if tc.spec != nil {
					change = append(change, tc.spec)
				}
				registrytest.CreateBudget(w, "b", *tc.status, change...)
			}
			defer func() {
				none := int64(0)
				for _, r := range []*registry.Resource{pods, budgets} {
					if _, err := r.DeleteCollection(t.Context(), "default", metav1.DeleteOptions{GracePeriodSeconds: &none}, metav1.ListOptions{}); err != nil {
						t.Error(err)
					}
				}
			}()
			err := evict(w, "p", nil)
			obj, getErr := pods.Get(t.Context(), "default", "p")
			if tc.cause != "" {
				var status apierrors.APIStatus
				if !errors.As(err, &status) || !apierrors.IsTooManyRequests(err) {
					t.Fatalf("got %v", err)
				}
				s := status.Status()
				if s.Message != "Cannot evict pod as it would violate the pod's disruption budget." || len(s.Details.Causes) != 1 ||
					s.Details.Causes[0].Type != policyv1.DisruptionBudgetCause || s.Details.Causes[0].Message != tc.cause || s.Details.RetryAfterSeconds != tc.retry {
					t.Errorf("refused with %+v %+v", s, s.Details)
				}
				if getErr != nil || obj.GetDeletionTimestamp() != nil {
					t.Errorf("the pod is %v, %v", obj, getErr)
				}
			} else if err != nil {
				t.Fatal(err)
			} else if !apierrors.IsNotFound(getErr) {
				pod := obj.(*corev1.Pod)
				if pod.DeletionTimestamp == nil {
					t.Error("the pod is not being deleted")
				}
				c := pod.Status.Conditions[len(pod.Status.Conditions)-1]
				if c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue || c.Reason != "EvictionByEvictionAPI" || c.Message != "Eviction API: evicting" {
					t.Errorf("the pod's last condition is %+v", c)
				}
			}
			if tc.status == nil {
				return
			}
			got, err := budgets.Get(t.Context(), "default", "b")
			if err != nil {
				t.Fatal(err)
			}
			budget := got.(*policyv1.PodDisruptionBudget)
			charged := tc.status.DisruptionsAllowed > 0 && tc.cause == ""
			if _, noted := budget.Status.DisruptedPods["p"]; noted != charged || budget.Status.DisruptionsAllowed != tc.left {
				t.Errorf("the budget is %+v", budget.Status)
			}
			if charged && tc.left == 0 && !meta.IsStatusConditionFalse(budget.Status.Conditions, policyv1.DisruptionAllowedCondition) {
				t.Errorf("the empty budget has conditions %+v", budget.Status.Conditions)
			}
		})
	}
}

func TestEvictionRequests(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	pod := registrytest.RunningPod(w, "p", corev1.ConditionTrue)
	registrytest.CreateBudget(w, "b", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 3})
	pods := registrytest.Of[*corev1.Pod](w)

	if err := evict(w, "gone", nil); !apierrors.IsNotFound(err) {
		t.Errorf("a pod that is not there: %v", err)
	}
	err := eviction.Evict(t.Context(), w.Registry, "default", "p", &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "q"}}, metav1.CreateOptions{})
	if !apierrors.IsBadRequest(err) || err.Error() != "name in URL does not match name in Eviction object" {
		t.Errorf("another name: %v", err)
	}
	uid, version := types.UID("other"), "1"
	for _, p := range []*metav1.Preconditions{{UID: &uid}, {ResourceVersion: &version}} {
		if err := evict(w, "p", &metav1.DeleteOptions{Preconditions: p}); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "in the precondition") {
			t.Errorf("a precondition that does not hold: %v", err)
		}
	}
	if err := evict(w, "p", &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
		t.Errorf("a dry run: %v", err)
	}
	// None of these requests has changed anything.
	got, err := registrytest.Of[*policyv1.PodDisruptionBudget](w).Get(t.Context(), "default", "b")
	if err != nil || got.(*policyv1.PodDisruptionBudget).Status.DisruptionsAllowed != 3 {
		t.Errorf("the budget is %+v, %v", got, err)
	}
	if now, err := pods.Get(t.Context(), "default", "p"); err != nil || now.GetResourceVersion() != pod.ResourceVersion {
		t.Errorf("the pod is %+v, %v", now, err)
	}
	registrytest.CreateBudget(w, "another", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: 3})
	err = evict(w, "p", nil)
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusInternalServerError ||
		err.Error() != "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support." {
		t.Errorf("two budgets: %v", err)
	}
	right := &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
	if _, _, err := registrytest.Of[*policyv1.PodDisruptionBudget](w).Delete(t.Context(), "default", "another", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := evict(w, "p", &metav1.DeleteOptions{Preconditions: right}); err != nil {
		t.Errorf("preconditions that hold: %v", err)
	}
	if now, err := pods.Get(t.Context(), "default", "p"); err != nil || now.GetDeletionTimestamp() == nil {
		t.Errorf("the pod is %+v, %v", now, err)
	}
	if err := evict(w, "p", nil); err != nil {
		t.Errorf("a pod that is being deleted: %v", err)
	}
	if b := registrytest.Get[*policyv1.PodDisruptionBudget](w, "default", "b"); b.Status.DisruptionsAllowed != 2 {
		t.Errorf("two evictions of one pod leave %+v", b.Status)
	}
}

// TestConcurrentEvictionsKeepTheBudget evicts every pod at once, while other writers change the
// budget.
func TestConcurrentEvictionsKeepTheBudget(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	const pods, allowed = 40, 7
	for i := range pods {
		registrytest.RunningPod(w, fmt.Sprintf("p%d", i), corev1.ConditionTrue)
	}
	registrytest.CreateBudget(w, "b", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed, CurrentHealthy: pods, DesiredHealthy: pods - allowed})
	var evicted, refused atomic.Int32
	var group sync.WaitGroup
	for i := range pods {
		group.Go(func() {
			switch err := evict(w, fmt.Sprintf("p%d", i), nil); {
			case err == nil:
				evicted.Add(1)
			case apierrors.IsTooManyRequests(err):
				refused.Add(1)
			default:
				t.Errorf("pod %d: %v", i, err)
			}
		})
	}
	for i := range 20 {
		group.Go(func() {
			_, err := registrytest.Of[*policyv1.PodDisruptionBudget](w).Update(t.Context(), "default", "b", func(current scheme.Object) (scheme.Object, error) {
				b := current.DeepCopyObject().(*policyv1.PodDisruptionBudget)
				metav1.SetMetaDataAnnotation(&b.ObjectMeta, fmt.Sprintf("a%d", i), "x")
				return b, nil
			}, registry.UpdateOptions{})
			if err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if evicted.Load() != allowed || refused.Load() != pods-allowed {
		t.Errorf("%d evicted and %d refused of %d pods; the budget allows %d", evicted.Load(), refused.Load(), pods, allowed)
	}
	obj, err := registrytest.Of[*policyv1.PodDisruptionBudget](w).Get(t.Context(), "default", "b")
	if err != nil {
		t.Fatal(err)
	}
	budget := obj.(*policyv1.PodDisruptionBudget)
	if budget.Status.DisruptionsAllowed != 0 || len(budget.Status.DisruptedPods) != allowed || len(budget.Annotations) != 20 {
		t.Errorf("the budget is %+v with annotations %v", budget.Status, budget.Annotations)
	}
}

// TestConcurrentEvictionOfUnreadyPods evicts a pod that is not charged many times at once: an
// attempt that finds it changed is answered with a retry.
func TestConcurrentEvictionOfUnreadyPods(t *testing.T) {
	t.Parallel()
	w := registrytest.New(t)
	registrytest.RunningPod(w, "p", corev1.ConditionFalse)
	registrytest.CreateBudget(w, "b", policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, CurrentHealthy: 3, DesiredHealthy: 3})
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			if err := evict(w, "p", nil); err != nil && !apierrors.IsTooManyRequests(err) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if obj, err := registrytest.Of[*corev1.Pod](w).Get(t.Context(), "default", "p"); err != nil || obj.GetDeletionTimestamp() == nil {
		t.Errorf("the pod is %v, %v", obj, err)
	}
}
