// Package disruption maintains in each PodDisruptionBudget's status how many of its pods may be
// evicted (kubernetes, pkg/controller/disruption). It also retracts the announcement of a
// disruption that did not happen.
package disruption

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "disruption-controller"
	// queue and staleQueue are Kubernetes' names for the work queues and their metrics; component is
	// the source of the recorded Events.
	queue      = "disruption"
	staleQueue = "stale_pod_disruption"
	component  = "controllermanager"
	// deletionTimeout is how long after its eviction a pod is expected to show as being deleted;
	// after that it counts as healthy again.
	deletionTimeout = 2 * time.Minute
	// staleTimeout is how long a pod may be announced as disrupted without being deleted.
	staleTimeout = 2 * time.Minute
)

// reconciler reconciles PodDisruptionBudgets, and the pods whose disruption was announced.
type reconciler struct {
	budgets *controller.Objects[*policyv1.PodDisruptionBudget]
	// pods are those whose announcement may be stale.
	pods        *controller.Objects[*corev1.Pod]
	replicaSets informer.SharedInformer[*appsv1.ReplicaSet]
	deployments informer.SharedInformer[*appsv1.Deployment]
	client      client.Interface
	events      *events.Recorder
	logger      *slog.Logger
}

// New declares the disruption controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		budgets: controller.For[*policyv1.PodDisruptionBudget](d), pods: controller.For[*corev1.Pod](d),
		replicaSets: informer.For[*appsv1.ReplicaSet](d.Informers), deployments: informer.For[*appsv1.Deployment](d.Informers),
		client: d.Client, events: d.Events(component), logger: d.Logger,
	}
	r.pods.Handle = addStale
	reads := []controller.Watch{controller.Reads(r.replicaSets), controller.Reads(r.deployments)}
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "poddisruptionbudgets", Unhurried: true, SharedWrites: true, Events: r.events,
		For: r.budgets, Watches: append(reads, controller.On(r.pods.SharedInformer, r.podChanged)), Reconcile: r.reconcile,
		Beside: []*controller.Spec{{
			Name: staleQueue, Resource: "pods", Unhurried: true,
			For: r.pods, Reconcile: r.reconcileStale,
		}},
	}
}

// podChanged asks for reconciles of the budgets that select a pod, or did.
func (r *reconciler) podChanged(q controller.Queue, old, now *corev1.Pod) {
	if now == nil {
		r.addBudgetsOf(q, old)
		return
	}
	budgets := r.addBudgetsOf(q, now)
	relabelled := old == nil
	if old != nil && !equality.Semantic.DeepEqual(old.Labels, now.Labels) {
		r.addBudgetsOf(q, old)
		relabelled = true
	}
	if relabelled {
		r.warnOfSeveral(now, budgets)
	}
}

// addBudgetsOf asks for reconciles of all budgets that select a pod, and returns their names.
func (r *reconciler) addBudgetsOf(q controller.Queue, pod *corev1.Pod) []string {
	var names []string
	for _, budget := range r.budgets.In(pod.Namespace) {
		// An empty selector selects every pod, a missing one selects none (policy/v1).
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, budget.Name)
			q.Add(budget)
		}
	}
	return names
}

// warnOfSeveral records an Event on a pod that several budgets select, because it cannot be
// evicted.
func (r *reconciler) warnOfSeveral(pod *corev1.Pod, budgets []string) {
	if len(budgets) > 1 {
		r.events.Event(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, slices.Min(budgets))
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	budget, found := r.budgets.Get(key)
	if !found {
		return reconcile.Result{}, nil
	}
	result, err := r.sync(ctx, budget)
	if err == nil || apierrors.IsConflict(err) {
		return result, err
	}
	// Whatever went wrong, an old status must not permit evictions.
	if failErr := r.failSafe(ctx, budget, err); failErr != nil {
		return reconcile.Result{}, failErr
	}
	return reconcile.Result{}, fmt.Errorf("failed to sync PodDisruptionBudget %s: %w", key, err)
}

func (r *reconciler) sync(ctx context.Context, budget *policyv1.PodDisruptionBudget) (reconcile.Result, error) {
	pods, err := r.podsOf(budget)
	if err != nil {
		r.events.Event(budget, corev1.EventTypeWarning, "NoPods", "Failed to get pods: %v", err)
		return reconcile.Result{}, err
	}
	if len(pods) == 0 {
		r.events.Event(budget, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	expected, desired, unmanaged, err := r.expectedPods(ctx, budget, pods)
	if err != nil {
		r.events.Event(budget, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed",
			"Failed to calculate the number of expected pods: %v", err)
		return reconcile.Result{}, err
	}
	if len(unmanaged) > 0 {
		r.events.Event(budget, corev1.EventTypeWarning, "UnmanagedPods",
			"Pods selected by this PodDisruptionBudget (selector: %v) were found to be unmanaged. As a result, the status of the PDB "+
				"cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set "+
				"\".spec.minAvailable\" field of the PDB to an integer value.", budget.Spec.Selector)
	}
	now := time.Now()
	disrupted, recheck := r.disruptedPods(budget, pods, now)
	next := newStatus(budget, countHealthy(pods, disrupted, now), desired, expected, disrupted)
	if err := r.write(ctx, budget, next); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: recheck}, nil
}

// podsOf returns the pods that a budget selects, sorted by name.
func (r *reconciler) podsOf(budget *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return nil, err
	}
	pods, err := r.pods.Lister().Namespace(budget.Namespace).List(selector)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods, nil
}

// write writes a status that differs from the current one. The resourceVersion makes the write fail
// if an eviction has used up some of the budget in the meantime.
func (r *reconciler) write(ctx context.Context, budget *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) error {
	if equality.Semantic.DeepEqual(budget.Status, status) {
		return nil
	}
	next := budget.DeepCopy()
	next.Status = status
	_, err := r.budgets.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of PodDisruptionBudget %s/%s: %w", budget.Namespace, budget.Name, err)
	}
	return nil
}
