// Package namespace empties a namespace that is being deleted, and then finalizes it (kubernetes,
// pkg/controller/namespace).
package namespace

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/aggregatedkinds"
	"github.com/garboard/garboard/services/controllers/internal/controller"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
)

const (
	name    = "namespace-controller"
	workers = 10
	// begin is the delay before emptying starts, so that content already being created at the time
	// of the deletion can arrive (Kubernetes, namespaceDeletionGracePeriod).
	begin = 5 * time.Second
)

// reconciler reconciles namespaces.
type reconciler struct {
	definitions *customresources.Definitions
	aggregated  *aggregatedkinds.Kinds
	namespaces  *controller.Objects[*corev1.Namespace]
	client      client.Interface
}

// New declares the namespace controller. It empties namespaces of the kinds of definitions and of aggregated APIs
// too.
func New(d controller.Deps, definitions *customresources.Definitions, aggregated *aggregatedkinds.Kinds) *controller.Spec {
	r := &reconciler{
		definitions: definitions, aggregated: aggregated, namespaces: controller.For[*corev1.Namespace](d), client: d.Client,
	}
	r.namespaces.Handle = changed
	return &controller.Spec{
		Name: name, Resource: "namespaces", Workers: workers, Unhurried: true, WaitFor: []informer.DoneChecker{definitions, aggregated},
		For: r.namespaces, Reconcile: r.reconcile,
	}
}

// changed asks for a reconcile of a namespace that is being deleted.
func changed(q controller.Queue, _, now *corev1.Namespace) {
	if now != nil && now.DeletionTimestamp != nil {
		q.AddAfter(now, max(time.Until(now.DeletionTimestamp.Add(begin)), 0))
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	// The cache will not do: what follows deletes everything.
	namespace, err := r.namespaces.Client.Get(ctx, "", key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading namespace %s: %w", key, err)
	}
	if namespace.DeletionTimestamp == nil || len(namespace.Spec.Finalizers) == 0 {
		return reconcile.Result{}, nil
	}
	if namespace.Status.Phase != corev1.NamespaceTerminating {
		namespace.Status.Phase = corev1.NamespaceTerminating
		if namespace, err = r.namespaces.Client.UpdateStatus(ctx, namespace, metav1.UpdateOptions{}); err != nil {
			return reconcile.Result{}, fmt.Errorf("marking namespace %s as terminating: %w", key, err)
		}
	}
	found := r.empty(ctx, key.Name)
	if namespace, err = r.report(ctx, namespace, found); err != nil {
		return reconcile.Result{}, err
	}
	if err := found.err(); err != nil {
		return reconcile.Result{}, fmt.Errorf("emptying namespace %s: %w", key, err)
	}
	if found.any() {
		return reconcile.Result{RequeueAfter: found.wait/2 + time.Second}, nil
	}
	return reconcile.Result{}, r.finalize(ctx, namespace)
}

// report writes into the namespace's conditions what is left in it.
func (r *reconciler) report(ctx context.Context, namespace *corev1.Namespace, found remains) (*corev1.Namespace, error) {
	next := namespace.DeepCopy()
	setConditions(&next.Status, found, metav1.Now())
	if equality.Semantic.DeepEqual(namespace.Status, next.Status) {
		return namespace, nil
	}
	updated, err := r.namespaces.Client.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("writing the status of namespace %s: %w", namespace.Name, err)
	}
	return updated, nil
}

// finalize removes Kubernetes' finalizer from an empty namespace, which then disappears unless it
// has others.
func (r *reconciler) finalize(ctx context.Context, namespace *corev1.Namespace) error {
	namespace.Spec.Finalizers = slices.DeleteFunc(namespace.Spec.Finalizers, func(f corev1.FinalizerName) bool {
		return f == corev1.FinalizerKubernetes
	})
	_, err := r.namespaces.Client.UpdateSubresource(ctx, namespace, "finalize", metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalizing namespace %s: %w", namespace.Name, err)
	}
	return nil
}
