// Package replicaset keeps as many pods running as each ReplicaSet asks for, as Kubernetes'
// ReplicaSet controller does (kubernetes, pkg/controller/replicaset).
package replicaset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/control"
	"github.com/garboard/garboard/services/controllers/internal/controllerref"
	"github.com/garboard/garboard/services/controllers/internal/podstate"
)

const (
	name           = "replicaset-controller"
	defaultWorkers = 5
	// burst bounds the pods created or deleted in one reconcile (Kubernetes, BurstReplicas).
	burst = 500
	// ownerIndex finds pods by the UID of their controller.
	ownerIndex = "replicaset-controller"
)

// Controller is the ReplicaSet controller.
type Controller struct {
	cfg         control.Config
	replicaSets informer.SharedInformer[*appsv1.ReplicaSet]
	pods        informer.SharedInformer[*corev1.Pod]
	events      *events.Recorder
}

// New returns the controller and requests its informers.
func New(cfg control.Config) (*Controller, error) {
	c := &Controller{
		cfg:         cfg,
		replicaSets: informer.For[*appsv1.ReplicaSet](cfg.Informers),
		pods:        informer.For[*corev1.Pod](cfg.Informers),
		events:      events.New(cfg.Client, name, "").WithLogger(cfg.Logger),
	}
	err := c.pods.AddIndexers(informer.Indexers[*corev1.Pod]{ownerIndex: controllerref.Index[*corev1.Pod]()})
	if err != nil {
		return nil, fmt.Errorf("creating the %s: %w", name, err)
	}
	return c, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	r := &run{
		Controller: c,
		sets:       client.Of[*appsv1.ReplicaSet](c.cfg.Client),
		podClient:  client.Of[*corev1.Pod](c.cfg.Client),
	}
	var handlers control.Handlers
	r.queue = reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(defaultWorkers), Resource: "replicasets",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(r.reconcile(ctx, key))
		},
		Priority: true, WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	if err := control.Handle(&handlers, c.replicaSets, reconcile.ByPriority(r.queue, r.setHandler)); err != nil {
		return handlers.Remove(fmt.Errorf("starting the %s: %w", name, err))
	}
	if err := control.Handle(&handlers, c.pods, reconcile.ByPriority(r.queue, r.podHandler)); err != nil {
		return handlers.Remove(fmt.Errorf("starting the %s: %w", name, err))
	}
	return handlers.Remove(control.RunAll(ctx, c.events.Run, r.queue.Run))
}

// run is one run of the controller, and holds what must not outlive it.
type run struct {
	*Controller
	sets      client.Resource[*appsv1.ReplicaSet]
	podClient client.Resource[*corev1.Pod]
	queue     *reconcile.Controller[string]
	// expectations cover the writes that the Recording client cannot: deletions that an apiserver
	// answers without a revision. Garboard's apiserver always includes it, so Recording alone
	// suffices there.
	expectations reconcile.Expectations
}

func (r *run) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	shared, found := r.replicaSets.Indexer().GetByKey(key)
	if !found {
		r.expectations.Delete(key)
		return reconcile.Result{}, nil
	}
	rs := shared.DeepCopy()
	selector, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("reading the selector of ReplicaSet %s: %w", key, err))
	}
	// Read before the pods, so that the pods show everything expected so far.
	satisfied := r.expectations.Satisfied(key)

	candidates, err := controllerref.Candidates(r.pods.Indexer(), ownerIndex, rs)
	if err != nil {
		return reconcile.Result{}, err
	}
	active, terminating, err := r.claim(ctx, rs, selector, candidates)
	if err != nil {
		return reconcile.Result{}, err
	}
	var manageErr error
	if satisfied && rs.DeletionTimestamp == nil {
		manageErr = r.manage(ctx, key, rs, active)
	}
	status, wait := newStatus(rs, active, terminating, manageErr, time.Now())
	if err := r.updateStatus(ctx, rs, status); err != nil {
		return reconcile.Result{}, err
	}
	if manageErr != nil {
		return reconcile.Result{}, fmt.Errorf("managing the pods of ReplicaSet %s: %w", key, manageErr)
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// claim returns the active and the terminating pods of a ReplicaSet, after adopting and releasing
// as needed.
func (r *run) claim(ctx context.Context, rs *appsv1.ReplicaSet, selector labels.Selector, candidates []*corev1.Pod) (
	active, terminating []*corev1.Pod, err error) {
	var living []*corev1.Pod
	for _, pod := range candidates {
		switch {
		case podstate.Active(pod):
			living = append(living, pod)
		case podstate.Terminating(pod) && metav1.IsControlledBy(pod, rs):
			terminating = append(terminating, pod)
		}
	}
	claim := controllerref.Claim[*corev1.Pod, *appsv1.ReplicaSet]{
		Objects: r.podClient, Owners: r.sets, Owner: rs, Selector: selector,
	}
	active, err = claim.Of(ctx, living)
	return active, terminating, err
}

// updateStatus writes a status that differs from the current one.
func (r *run) updateStatus(ctx context.Context, rs *appsv1.ReplicaSet, status appsv1.ReplicaSetStatus) error {
	if sameStatus(rs.Status, status) && rs.Generation == rs.Status.ObservedGeneration {
		return nil
	}
	status.ObservedGeneration = rs.Generation
	rs.Status = status
	_, err := r.sets.UpdateStatus(ctx, rs, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("writing the status of ReplicaSet %s/%s: %w", rs.Namespace, rs.Name, err)
	}
	return nil
}
