// Package deployment keeps a Deployment's ReplicaSets as it asks: one for each pod template it has
// had, the newest with all pods. It rolls out by a rolling update or by recreation, as Kubernetes'
// Deployment controller does (kubernetes, pkg/controller/deployment).
package deployment

import (
	"context"
	"fmt"
	"log/slog"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name    = "deployment-controller"
	workers = 5
)

// reconciler reconciles Deployments.
type reconciler struct {
	deployments *controller.Objects[*appsv1.Deployment]
	replicaSets *controller.Owned[*appsv1.ReplicaSet, *appsv1.Deployment]
	pods        informer.SharedInformer[*corev1.Pod]
	events      *events.Recorder
	logger      *slog.Logger
}

// New declares the Deployment controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		deployments: controller.For[*appsv1.Deployment](d), pods: informer.For[*corev1.Pod](d.Informers),
		events: d.Events(name), logger: d.Logger,
	}
	r.replicaSets = controller.OwnedBy[*appsv1.ReplicaSet](d, r.deployments)
	r.replicaSets.Selects = func(d *appsv1.Deployment) (labels.Selector, error) {
		return metav1.LabelSelectorAsSelector(d.Spec.Selector)
	}
	return &controller.Spec{
		Name: name, Resource: "deployments", Workers: workers, Events: r.events,
		For: r.deployments, Watches: []controller.Watch{r.replicaSets, controller.On(r.pods, r.podChanged)}, Reconcile: r.reconcile,
	}
}

// podChanged asks for a reconcile of a Deployment that recreates when one of its pods is gone, so that
// it notices the last.
func (r *reconciler) podChanged(q controller.Queue, old, now *corev1.Pod) {
	if now != nil {
		return
	}
	ref := metav1.GetControllerOfNoCopy(old)
	if ref == nil || ref.Kind != r.replicaSets.Client.Kind().Kind {
		return
	}
	rs, found := r.replicaSets.Indexer().GetByKey(informer.KeyOf(old.Namespace, ref.Name))
	if !found || rs.UID != ref.UID {
		return
	}
	if d, found := r.replicaSets.Owner(rs); found && d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		q.Add(d)
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	shared, found := r.deployments.Get(key)
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
	rollout := &rollout{reconciler: r, d: d, sets: sets}
	result, err := rollout.step(ctx)
	if apierrors.IsNotFound(err) && r.deleted(ctx, d) {
		return reconcile.Result{}, nil // Deleted while it was being reconciled.
	}
	return result, err
}

// deleted reports whether the API no longer has this Deployment.
func (r *reconciler) deleted(ctx context.Context, d *appsv1.Deployment) bool {
	fresh, err := r.deployments.Client.Get(ctx, d.Namespace, d.Name, metav1.GetOptions{})
	return apierrors.IsNotFound(err) || err == nil && fresh.UID != d.UID
}

// refuseSelector reports, in an Event, that a Deployment whose selector matches everything is
// ignored.
func (r *reconciler) refuseSelector(ctx context.Context, d *appsv1.Deployment) error {
	r.events.Event(d, corev1.EventTypeWarning, "SelectingAll",
		"This deployment is selecting all pods. A non-empty selector is required.")
	if d.Status.ObservedGeneration >= d.Generation {
		return nil
	}
	d.Status.ObservedGeneration = d.Generation
	_, err := r.deployments.Client.UpdateStatus(ctx, d, metav1.UpdateOptions{})
	if err != nil {
		return fmt.Errorf("writing the status of Deployment %s/%s: %w", d.Namespace, d.Name, err)
	}
	return nil
}

// claim adopts and releases ReplicaSets as needed, and returns copies of the ones that the
// Deployment controls.
func (r *reconciler) claim(ctx context.Context, d *appsv1.Deployment) ([]*appsv1.ReplicaSet, error) {
	if _, err := r.replicaSets.Selects(d); err != nil {
		return nil, reconcile.TerminalError(fmt.Errorf("reading the selector of Deployment %s/%s: %w", d.Namespace, d.Name, err))
	}
	candidates, err := r.replicaSets.Of(d)
	if err != nil {
		return nil, err
	}
	claimed, err := r.replicaSets.Claim(ctx, d, candidates)
	if err != nil {
		return nil, err
	}
	for i := range claimed {
		claimed[i] = claimed[i].DeepCopy()
	}
	return claimed, nil
}
