// Package disruption maintains in each PodDisruptionBudget's status how many of its pods may be
// evicted (kubernetes, pkg/controller/disruption). It also retracts the announcement of a
// disruption that did not happen.
package disruption

import (
	"context"
	"fmt"
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
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	// name and staleName are Kubernetes' names for the work queues and their metrics; component is
	// the source of the recorded Events.
	name      = "disruption"
	staleName = "stale_pod_disruption"
	component = "controllermanager"
	// deletionTimeout is how long after its eviction a pod is expected to show as being deleted;
	// after that it counts as healthy again.
	deletionTimeout = 2 * time.Minute
	// staleTimeout is how long a pod may be announced as disrupted without being deleted.
	staleTimeout = 2 * time.Minute
)

// Controller is the disruption controller.
type Controller struct {
	cfg         control.Config
	budgets     informer.SharedInformer[*policyv1.PodDisruptionBudget]
	pods        informer.SharedInformer[*corev1.Pod]
	replicaSets informer.SharedInformer[*appsv1.ReplicaSet]
	deployments informer.SharedInformer[*appsv1.Deployment]
	events      *events.Recorder
}

// New returns the controller and requests its informers.
func New(cfg control.Config) (*Controller, error) {
	return &Controller{
		cfg:         cfg,
		budgets:     informer.For[*policyv1.PodDisruptionBudget](cfg.Informers),
		pods:        informer.For[*corev1.Pod](cfg.Informers),
		replicaSets: informer.For[*appsv1.ReplicaSet](cfg.Informers),
		deployments: informer.For[*appsv1.Deployment](cfg.Informers),
		events:      events.New(cfg.Client, component, "").WithLogger(cfg.Logger),
	}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	r := &run{
		Controller:   c,
		budgetClient: client.Of[*policyv1.PodDisruptionBudget](c.cfg.Client),
		podClient:    client.Of[*corev1.Pod](c.cfg.Client),
	}
	var handlers control.Handlers
	r.queue = reconcile.New(r.config(name, "poddisruptionbudgets", &handlers, r.reconcile))
	r.stale = reconcile.New(r.config(staleName, "pods", &handlers, r.reconcileStale))
	control.Need(&handlers, c.replicaSets)
	control.Need(&handlers, c.deployments)
	err := control.Handle(&handlers, c.budgets, reconcile.EnqueueObject[*policyv1.PodDisruptionBudget](r.queue.Enqueue))
	if err == nil {
		err = control.Handle(&handlers, c.pods, r.podHandler())
	}
	if err == nil {
		err = control.RunAll(ctx, c.events.Run, r.queue.Run, r.stale.Run)
	}
	if err = handlers.Remove(err); err != nil {
		return fmt.Errorf("running the %s controller: %w", name, err)
	}
	return nil
}

// run is one run of the controller, and holds what must not outlive it.
type run struct {
	*Controller
	budgetClient client.Resource[*policyv1.PodDisruptionBudget]
	podClient    client.Resource[*corev1.Pod]
	queue, stale *reconcile.Controller[string]
}

func (r *run) config(name, resource string, handlers *control.Handlers, f reconcile.Func[string]) reconcile.Config[string] {
	return reconcile.Config[string]{
		Name: name, Workers: r.cfg.WorkersOr(1), Resource: resource,
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(f(ctx, key))
		},
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: r.cfg.Logger, Registerer: r.cfg.Registerer, Trace: r.cfg.Trace,
	}
}

func (r *run) podHandler() informer.ResourceEventHandler[*corev1.Pod] {
	return informer.ResourceEventHandlerFuncs[*corev1.Pod]{
		AddFunc: func(pod *corev1.Pod, _ bool) {
			r.warnOfSeveral(pod, r.enqueueBudgetsOf(pod))
			r.enqueueStale(pod)
		},
		UpdateFunc: func(old, pod *corev1.Pod) {
			budgets := r.enqueueBudgetsOf(pod)
			if !equality.Semantic.DeepEqual(old.Labels, pod.Labels) {
				r.enqueueBudgetsOf(old)
				r.warnOfSeveral(pod, budgets)
			}
			r.enqueueStale(pod)
		},
		DeleteFunc: func(gone informer.DeletedObject[*corev1.Pod]) {
			if gone.OptionalObj != nil {
				r.enqueueBudgetsOf(gone.OptionalObj)
			}
		},
	}
}

// enqueueBudgetsOf enqueues all budgets that select a pod, and returns their names.
func (r *run) enqueueBudgetsOf(pod *corev1.Pod) []string {
	budgets, err := r.budgets.Indexer().ByIndex(informer.NamespaceIndex, pod.Namespace)
	if err != nil {
		r.cfg.Logger.Error("finding the disruption budgets of a pod", "namespace", pod.Namespace, "name", pod.Name, "err", err)
		return nil
	}
	var names []string
	for _, budget := range budgets {
		// An empty selector selects every pod, a missing one selects none (policy/v1).
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, budget.Name)
			r.queue.Enqueue(informer.Key(budget))
		}
	}
	return names
}

// warnOfSeveral records an Event on a pod that several budgets select, because it cannot be
// evicted.
func (r *run) warnOfSeveral(pod *corev1.Pod, budgets []string) {
	if len(budgets) > 1 {
		r.events.Event(pod, corev1.EventTypeWarning, "MultiplePodDisruptionBudgets",
			"Pod %q/%q matches multiple PodDisruptionBudgets.  Chose %q arbitrarily.", pod.Namespace, pod.Name, slices.Min(budgets))
	}
}

func (r *run) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	budget, found := r.budgets.Indexer().GetByKey(key)
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

func (r *run) sync(ctx context.Context, budget *policyv1.PodDisruptionBudget) (reconcile.Result, error) {
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
func (r *run) podsOf(budget *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
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
func (r *run) write(ctx context.Context, budget *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) error {
	if equality.Semantic.DeepEqual(budget.Status, status) {
		return nil
	}
	next := budget.DeepCopy()
	next.Status = status
	_, err := r.budgetClient.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of PodDisruptionBudget %s/%s: %w", budget.Namespace, budget.Name, err)
	}
	return nil
}
