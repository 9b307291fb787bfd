// Package endpointslicemirroring writes EndpointSlices for the Endpoints that users write for Services
// without a selector, as Kubernetes' EndpointSliceMirroring controller does (kubernetes,
// pkg/controller/endpointslicemirroring).
package endpointslicemirroring

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/serviceendpoints"
)

const (
	name    = "endpointslice-mirroring-controller"
	workers = 5
	// manager is the value of the label that says who writes a slice.
	manager = "endpointslicemirroring-controller.k8s.io"
	// maxAddresses bounds the addresses of a subset that are mirrored (Kubernetes,
	// --mirroring-max-endpoints-per-subset).
	maxAddresses = 1000
	// leaderAnnotation marks Endpoints by which old programs elected a leader.
	leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"
)

// reconciler reconciles Endpoints.
type reconciler struct {
	endpoints *controller.Objects[*corev1.Endpoints]
	services  informer.SharedInformer[*corev1.Service]
	slices    *serviceendpoints.Slices[*corev1.Endpoints]
	events    *events.Recorder
	metrics   *metrics
}

// New declares the EndpointSliceMirroring controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		endpoints: controller.For[*corev1.Endpoints](d), services: informer.For[*corev1.Service](d.Informers),
		events: d.Events("endpoint-slice-mirroring-controller"), metrics: newMetrics(d.Registerer),
	}
	r.endpoints.Changed = func(old, now *corev1.Endpoints) bool { return mirrored(old) || mirrored(now) }
	r.slices = serviceendpoints.SlicesOf(d, manager, r.endpoints)
	return &controller.Spec{
		Name: name, Queue: "endpoint_slice_mirroring", Resource: "endpoints", Workers: workers, Events: r.events, For: r.endpoints,
		Watches:   []controller.Watch{r.slices.Watch(), controller.On(r.services, r.serviceChanged)},
		Reconcile: r.reconcile,
	}
}

// serviceChanged asks for a reconcile of the Endpoints of a Service that comes, goes, or changes between
// having a selector and having none. Endpoints that do not exist yet ask for it when they come: a key of theirs
// from before that has another root, and two workers would write the same slices.
func (r *reconciler) serviceChanged(q controller.Queue, old, now *corev1.Service) {
	without := func(svc *corev1.Service) bool { return svc != nil && len(svc.Spec.Selector) == 0 }
	if without(old) != without(now) {
		svc := now
		if svc == nil {
			svc = old
		}
		if e, found := r.endpoints.Indexer().GetByKey(informer.Key(svc)); found {
			q.Add(e)
		}
	}
}

// mirrored reports whether Endpoints are mirrored if their Service has no selector.
func mirrored(e *corev1.Endpoints) bool {
	_, leader := e.Annotations[leaderAnnotation]
	return !leader && e.Labels[discoveryv1.LabelSkipMirror] != "true"
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	defer r.metrics.since(time.Now())
	existing, err := r.slices.Of(key)
	if err != nil {
		return reconcile.Result{}, err
	}
	what := "Endpoints " + key.String()
	e, found := r.endpoints.Get(key)
	svc, hasService := r.services.Indexer().GetByKey(key.String())
	if !found || !mirrored(e) || !hasService || len(svc.Spec.Selector) > 0 {
		r.metrics.forget(key.String())
		return reconcile.Result{}, r.slices.Delete(ctx, existing, what)
	}
	wanted, invalid, skipped := mirror(e)
	if invalid > 0 {
		r.events.Event(e, corev1.EventTypeWarning, "InvalidIPAddress",
			"Skipped %d invalid IP addresses when mirroring to EndpointSlices", invalid)
	}
	if skipped > invalid {
		r.events.Event(e, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", maxAddresses, skipped)
	}
	plan := newPlan(e, wanted, existing)
	plan.Reuse(func(*discoveryv1.EndpointSlice) bool { return true })
	if e.DeletionTimestamp != nil {
		plan.Create = nil
	}
	r.metrics.planned(key.String(), wanted, existing, plan, skipped)
	if err := r.slices.Write(ctx, plan, what); err != nil {
		return reconcile.Result{}, fmt.Errorf("mirroring Endpoints %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}
