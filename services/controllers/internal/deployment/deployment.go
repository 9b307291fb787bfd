// Package deployment keeps a Deployment's ReplicaSets as it asks: one for each pod template it has
// had, the newest with all pods. It rolls out by a rolling update or by recreation, as Kubernetes'
// Deployment controller does (kubernetes, pkg/controller/deployment).
package deployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/control"
	"github.com/garboard/garboard/services/controllers/internal/controllerref"
)

const (
	name           = "deployment-controller"
	defaultWorkers = 5
	// ownerIndex finds ReplicaSets by the UID of their controller.
	ownerIndex = "deployment-controller"
)

// Controller is the Deployment controller.
type Controller struct {
	cfg         control.Config
	deployments informer.SharedInformer[*appsv1.Deployment]
	replicaSets informer.SharedInformer[*appsv1.ReplicaSet]
	pods        informer.SharedInformer[*corev1.Pod]
	events      *events.Recorder
}

// New returns the controller and requests its informers.
func New(cfg control.Config) (*Controller, error) {
	c := &Controller{
		cfg:         cfg,
		deployments: informer.For[*appsv1.Deployment](cfg.Informers),
		replicaSets: informer.For[*appsv1.ReplicaSet](cfg.Informers),
		pods:        informer.For[*corev1.Pod](cfg.Informers),
		events:      events.New(cfg.Client, name, "").WithLogger(cfg.Logger),
	}
	err := c.replicaSets.AddIndexers(informer.Indexers[*appsv1.ReplicaSet]{ownerIndex: controllerref.Index[*appsv1.ReplicaSet]()})
	if err != nil {
		return nil, fmt.Errorf("creating the %s: %w", name, err)
	}
	return c, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	r := &run{
		Controller:       c,
		deploymentClient: client.Of[*appsv1.Deployment](c.cfg.Client),
		setClient:        client.Of[*appsv1.ReplicaSet](c.cfg.Client),
	}
	var handlers control.Handlers
	r.queue = reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(defaultWorkers), Resource: "deployments",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(r.reconcile(ctx, key))
		},
		Priority: true, WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	for _, add := range []func() error{
		func() error {
			return control.Handle(&handlers, c.deployments, reconcile.ByPriority(r.queue, r.deploymentHandler))
		},
		func() error {
			return control.Handle(&handlers, c.replicaSets, reconcile.ByPriority(r.queue, r.setHandler))
		},
		func() error { return control.Handle(&handlers, c.pods, r.podHandler()) },
	} {
		if err := add(); err != nil {
			return handlers.Remove(fmt.Errorf("starting the %s: %w", name, err))
		}
	}
	return handlers.Remove(control.RunAll(ctx, c.events.Run, r.queue.Run))
}

// run is one run of the controller, and holds what must not outlive it.
type run struct {
	*Controller
	deploymentClient client.Resource[*appsv1.Deployment]
	setClient        client.Resource[*appsv1.ReplicaSet]
	queue            *reconcile.Controller[string]
}

func (r *run) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	shared, found := r.deployments.Indexer().GetByKey(key)
	if !found {
		return reconcile.Result{}, nil
	}
	d := shared.DeepCopy()
	if equality.Semantic.DeepEqual(d.Spec.Selector, &metav1.LabelSelector{}) {
		return reconcile.Result{}, r.refuseSelector(ctx, d)
	}
	sets, err := r.claim(ctx, d)
	if err != nil {
		return reconcile.Result{}, err
	}
	rollout := &rollout{run: r, d: d, sets: sets}
	result, err := rollout.step(ctx)
	if apierrors.IsNotFound(err) && r.deleted(ctx, d) {
		return reconcile.Result{}, nil // Deleted while it was being reconciled.
	}
	return result, err
}

// deleted reports whether the API no longer has this Deployment.
func (r *run) deleted(ctx context.Context, d *appsv1.Deployment) bool {
	fresh, err := r.deploymentClient.Get(ctx, d.Namespace, d.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && fresh.UID != d.UID
}

// refuseSelector reports, in an Event, that a Deployment whose selector matches everything is
// ignored.
func (r *run) refuseSelector(ctx context.Context, d *appsv1.Deployment) error {
	r.events.Event(d, corev1.EventTypeWarning, "SelectingAll",
		"This deployment is selecting all pods. A non-empty selector is required.")
	if d.Status.ObservedGeneration >= d.Generation {
		return nil
	}
	d.Status.ObservedGeneration = d.Generation
	_, err := r.deploymentClient.UpdateStatus(ctx, d, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// claim adopts and releases ReplicaSets as needed, and returns copies of the ones that the
// Deployment controls.
func (r *run) claim(ctx context.Context, d *appsv1.Deployment) ([]*appsv1.ReplicaSet, error) {
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return nil, reconcile.TerminalError(fmt.Errorf("reading the selector of Deployment %s/%s: %w", d.Namespace, d.Name, err))
	}
	candidates, err := controllerref.Candidates(r.replicaSets.Indexer(), ownerIndex, d)
	if err != nil {
		return nil, err
	}
	claimed, err := controllerref.Claim[*appsv1.ReplicaSet, *appsv1.Deployment]{
		Objects: r.setClient, Owners: r.deploymentClient, Owner: d, Selector: selector,
	}.Of(ctx, candidates)
	if err != nil {
		return nil, err
	}
	for i := range claimed {
		claimed[i] = claimed[i].DeepCopy()
	}
	return claimed, nil
}
