// Package endpointslice writes the EndpointSlices of Services with a selector, as Kubernetes'
// EndpointSlice controller does (kubernetes, pkg/controller/endpointslice, and k8s.io/endpointslice).
//
// Hints come from the packages topologycache and trafficdist of k8s.io/endpointslice. The Reconciler of
// that module is not used: it writes through client-go's clientset with a context of its own, so that
// neither the end of a term nor the wait for the controller's own writes would reach its calls.
package endpointslice

import (
	"context"
	"errors"
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
	name    = "endpointslice-controller"
	workers = 5
	// manager is the value of the label that says who writes a slice.
	manager = "endpointslice-controller.k8s.io"
	// maxEndpoints bounds the endpoints of a slice (Kubernetes, --max-endpoints-per-slice).
	maxEndpoints = 100
)

// reconciler reconciles Services.
type reconciler struct {
	services *controller.Objects[*corev1.Service]
	slices   *serviceendpoints.Slices[*corev1.Service]
	pods     informer.SharedInformer[*corev1.Pod]
	nodes    informer.SharedInformer[*corev1.Node]
	events   *events.Recorder
	metrics  *metrics
	triggers serviceendpoints.Triggers
	zones    *zones
}

// New declares the EndpointSlice controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		services: controller.For[*corev1.Service](d), pods: informer.For[*corev1.Pod](d.Informers),
		nodes: informer.For[*corev1.Node](d.Informers), events: d.Events("endpoint-slice-controller"),
		metrics: newMetrics(d.Registerer),
	}
	r.slices = serviceendpoints.SlicesOf(d, manager, r.services)
	r.zones = newZones(r.nodes)
	return &controller.Spec{
		Name: name, Queue: "endpoint_slice", Resource: "services", Workers: workers, Events: r.events, For: r.services,
		Watches:   append(serviceendpoints.Watches(r.pods, r.services), r.slices.Watch(), controller.On(r.nodes, r.zones.changed)),
		Reconcile: r.reconcile, BatchPeriod: serviceendpoints.BatchPeriod, Also: []func(context.Context) error{r.zones.run},
		Begin: func(controller.Queue) {
			r.triggers.Reset()
			r.zones.reset()
		},
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	svc, found := r.services.Get(key)
	if !found {
		// The garbage collector deletes the slices.
		r.triggers.Forget(key)
		r.zones.forget(key.String())
		r.metrics.forget(key.String())
		return reconcile.Result{}, nil
	}
	if !serviceendpoints.Selecting(svc) {
		return reconcile.Result{}, nil
	}
	pods, err := serviceendpoints.Pods(r.pods, svc)
	if err != nil {
		return reconcile.Result{}, err
	}
	existing, err := r.slices.Of(key)
	if err != nil {
		return reconcile.Result{}, err
	}
	err = r.write(ctx, svc, pods, existing, r.triggers.Note(svc, pods))
	r.metrics.synced(err)
	if err != nil {
		r.events.Event(svc, corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
			"Error updating Endpoint Slices for Service %s: %v", key, err)
	}
	return reconcile.Result{}, err
}

// write makes the slices of a Service show its pods.
func (r *reconciler) write(ctx context.Context, svc *corev1.Service, pods []*corev1.Pod,
	existing []*discoveryv1.EndpointSlice, at time.Time) error {
	what := fmt.Sprintf("Service %s/%s", svc.Namespace, svc.Name)
	types := addressTypes(svc)
	var faults []error
	for _, addressType := range types {
		faults = append(faults, r.writeType(ctx, svc, pods, ofType(existing, addressType), addressType, at))
	}
	for _, slice := range existing {
		if !has(types, slice.AddressType) {
			r.zones.cache.RemoveHints(key(svc), slice.AddressType)
			faults = append(faults, r.delete(ctx, slice, what))
		}
	}
	return errors.Join(faults...)
}

func (r *reconciler) delete(ctx context.Context, slice *discoveryv1.EndpointSlice, what string) error {
	err := r.slices.Delete(ctx, []*discoveryv1.EndpointSlice{slice}, what)
	if err == nil {
		r.metrics.changes.WithLabelValues("delete").Inc()
	}
	return err
}

// writeType makes the slices of one type of addresses show the pods of a Service.
func (r *reconciler) writeType(ctx context.Context, svc *corev1.Service, pods []*corev1.Pod, existing []*discoveryv1.EndpointSlice,
	addressType discoveryv1.AddressType, at time.Time) error {
	wanted, missing := r.wanted(svc, pods, addressType)
	p := pack(svc, addressType, wanted, existing)
	happened := r.hint(svc, addressType, &p.Plan, existing)
	p.Reuse(func(slice *discoveryv1.EndpointSlice) bool { return ownedBy(slice, svc) })
	if svc.DeletionTimestamp != nil {
		p.Create = nil // The garbage collector would have to find them.
	}
	for _, slice := range p.Create {
		slice.Annotations = serviceendpoints.Annotate(slice.Annotations, at)
	}
	for _, slice := range p.Update {
		slice.Annotations = serviceendpoints.Annotate(slice.Annotations, at)
	}
	err := r.slices.Write(ctx, p.Plan, "Service "+key(svc))
	if err == nil {
		r.metrics.wrote(svc, addressType, p, len(existing))
	}
	for _, event := range happened {
		r.events.Event(svc, event.EventType, event.Reason, "%s", event.Message)
	}
	return errors.Join(missing, err)
}

func key(svc *corev1.Service) string { return informer.KeyOf(svc.Namespace, svc.Name) }

func ofType(all []*discoveryv1.EndpointSlice, addressType discoveryv1.AddressType) []*discoveryv1.EndpointSlice {
	var found []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if slice.AddressType == addressType {
			found = append(found, slice)
		}
	}
	return found
}
