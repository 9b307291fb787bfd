// Package endpoints writes the Endpoints of Services with a selector, as Kubernetes' endpoints controller
// does (kubernetes, pkg/controller/endpoint).
package endpoints

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/endpointsubsets"
	"github.com/garboard/garboard/services/controllers/internal/serviceendpoints"
)

const (
	name    = "endpoints-controller"
	workers = 5
	// labelManagedBy says who writes Endpoints, and manager that it is this controller.
	labelManagedBy = "endpoints.kubernetes.io/managed-by"
	manager        = "endpoint-controller"
	// leaderAnnotation marks Endpoints by which old programs elected a leader.
	leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"
)

// reconciler reconciles Services.
type reconciler struct {
	services  *controller.Objects[*corev1.Service]
	pods      informer.SharedInformer[*corev1.Pod]
	endpoints informer.SharedInformer[*corev1.Endpoints]
	client    client.Resource[*corev1.Endpoints]
	events    *events.Recorder
	triggers  serviceendpoints.Triggers

	mu    sync.Mutex
	began time.Time
}

// New declares the Endpoints controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		services: controller.For[*corev1.Service](d), pods: informer.For[*corev1.Pod](d.Informers),
		endpoints: informer.For[*corev1.Endpoints](d.Informers), client: client.Of[*corev1.Endpoints](d.Client),
		events: d.Events(manager),
	}
	return &controller.Spec{
		Name: name, Queue: "endpoint", Resource: "services", Workers: workers, Events: r.events, For: r.services,
		Watches:   append(serviceendpoints.Watches(r.pods, r.services), controller.On(r.endpoints, r.changed)),
		Reconcile: r.reconcile, BatchPeriod: serviceendpoints.BatchPeriod,
		Begin: func(controller.Queue) {
			r.triggers.Reset()
			r.mu.Lock()
			defer r.mu.Unlock()
			r.began = time.Now()
		},
	}
}

// changed asks for a reconcile of the Service of Endpoints that are deleted, and of those from before this
// term, whose Service may have been deleted in between.
func (r *reconciler) changed(q controller.Queue, old, now *corev1.Endpoints) {
	switch {
	case now == nil:
		q.AddName(old.Namespace, old.Name)
	case old == nil && r.leftover(now):
		q.AddName(now.Namespace, now.Name)
	}
}

func (r *reconciler) leftover(e *corev1.Endpoints) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, leader := e.Annotations[leaderAnnotation]
	return !leader && e.CreationTimestamp.Time.Before(r.began)
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	current, exists := r.endpoints.Indexer().GetByKey(key.String())
	svc, found := r.services.Get(key)
	if !found {
		r.triggers.Forget(key)
		if !exists {
			return reconcile.Result{}, nil
		}
		err := r.client.Delete(ctx, key.Namespace, key.Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return reconcile.Result{}, fmt.Errorf("deleting the Endpoints of Service %s: %w", key, err)
		}
		return reconcile.Result{}, nil
	}
	if !serviceendpoints.Selecting(svc) {
		return reconcile.Result{}, nil
	}
	pods, err := serviceendpoints.Pods(r.pods, svc)
	if err != nil {
		return reconcile.Result{}, err
	}
	at := r.triggers.Note(svc, pods)
	wanted, cut := truncate(subsets(svc, pods))
	if exists && same(current, svc, wanted, cut) {
		return reconcile.Result{}, nil
	}
	next := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: svc.Namespace, Name: svc.Name}}
	if exists {
		next = current.DeepCopy()
	}
	next.Subsets, next.Labels = wanted, wantedLabels(svc)
	next.Annotations = serviceendpoints.Annotate(next.Annotations, at)
	if cut {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, corev1.EndpointsOverCapacity, truncated)
	} else {
		delete(next.Annotations, corev1.EndpointsOverCapacity)
	}
	return reconcile.Result{}, r.write(ctx, next, exists)
}

// same reports whether Endpoints need no write.
func same(current *corev1.Endpoints, svc *corev1.Service, wanted []corev1.EndpointSubset, cut bool) bool {
	mark, marked := current.Annotations[corev1.EndpointsOverCapacity]
	if marked != cut || cut && mark != truncated || !maps.Equal(current.Labels, wantedLabels(svc)) {
		return false
	}
	// Another version of the controller may have sorted in another way.
	subsets := withoutVersions(current.Subsets)
	return equality.Semantic.DeepEqual(subsets, wanted) || equality.Semantic.DeepEqual(endpointsubsets.Repack(subsets), wanted)
}

// write creates or updates Endpoints.
func (r *reconciler) write(ctx context.Context, next *corev1.Endpoints, exists bool) error {
	if exists {
		if _, err := r.client.Update(ctx, next, metav1.UpdateOptions{}); err != nil {
			r.events.Event(next, corev1.EventTypeWarning, "FailedToUpdateEndpoint",
				"Failed to update endpoint %s/%s: %v", next.Namespace, next.Name, err)
			return fmt.Errorf("updating Endpoints %s/%s: %w", next.Namespace, next.Name, err)
		}
		return nil
	}
	_, err := r.client.Create(ctx, next, metav1.CreateOptions{})
	if err == nil || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	r.events.Event(next, corev1.EventTypeWarning, "FailedToCreateEndpoint",
		"Failed to create endpoint for service %s/%s: %v", next.Namespace, next.Name, err)
	return fmt.Errorf("creating Endpoints %s/%s: %w", next.Namespace, next.Name, err)
}

// wantedLabels returns the labels of a Service's Endpoints.
func wantedLabels(svc *corev1.Service) map[string]string {
	wanted := maps.Clone(svc.Labels)
	if wanted == nil {
		wanted = map[string]string{}
	}
	delete(wanted, corev1.IsHeadlessService)
	if svc.Spec.ClusterIP == corev1.ClusterIPNone || svc.Spec.ClusterIP == "" {
		wanted[corev1.IsHeadlessService] = ""
	}
	wanted[labelManagedBy] = manager
	return wanted
}
