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
	"github.com/garboard/garboard/services/controllers/internal/control"
	"github.com/garboard/garboard/services/controllers/internal/customresources"
)

const (
	name           = "namespace-controller"
	defaultWorkers = 10
	// begin is the delay before emptying starts, so that content already being created at the time
	// of the deletion can arrive (Kubernetes, namespaceDeletionGracePeriod).
	begin = 5 * time.Second
)

// Controller is the namespace controller.
type Controller struct {
	cfg         control.Config
	definitions *customresources.Definitions
	namespaces  informer.SharedInformer[*corev1.Namespace]
	client      client.Resource[*corev1.Namespace]
}

// New returns the controller and requests its informer. It empties namespaces of the kinds of definitions
// too.
func New(cfg control.Config, definitions *customresources.Definitions) (*Controller, error) {
	return &Controller{
		cfg: cfg, definitions: definitions,
		namespaces: informer.For[*corev1.Namespace](cfg.Informers), client: client.Of[*corev1.Namespace](cfg.Client),
	}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(defaultWorkers), Resource: "namespaces",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(c.reconcile(ctx, key))
		},
		WaitFor: func() []informer.DoneChecker { return append(handlers.Checkers(), c.definitions) }, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	enqueue := func(namespace *corev1.Namespace) {
		if namespace.DeletionTimestamp == nil {
			return
		}
		queue.EnqueueAfter(namespace.Name, max(time.Until(namespace.DeletionTimestamp.Add(begin)), 0))
	}
	err := control.Handle(&handlers, c.namespaces, informer.ResourceEventHandlerFuncs[*corev1.Namespace]{
		AddFunc:    func(namespace *corev1.Namespace, _ bool) { enqueue(namespace) },
		UpdateFunc: func(_, namespace *corev1.Namespace) { enqueue(namespace) },
	})
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	// The cache will not do: what follows deletes everything.
	namespace, err := c.client.Get(ctx, "", key, metav1.GetOptions{})
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
		if namespace, err = c.client.UpdateStatus(ctx, namespace, metav1.UpdateOptions{}); err != nil {
			return reconcile.Result{}, fmt.Errorf("marking namespace %s as terminating: %w", key, err)
		}
	}
	found := c.empty(ctx, key)
	if namespace, err = c.report(ctx, namespace, found); err != nil {
		return reconcile.Result{}, err
	}
	if err := found.err(); err != nil {
		return reconcile.Result{}, fmt.Errorf("emptying namespace %s: %w", key, err)
	}
	if found.any() {
		return reconcile.Result{RequeueAfter: found.wait/2 + time.Second}, nil
	}
	return reconcile.Result{}, c.finalize(ctx, namespace)
}

// report writes into the namespace's conditions what is left in it.
func (c *Controller) report(ctx context.Context, namespace *corev1.Namespace, found remains) (*corev1.Namespace, error) {
	next := namespace.DeepCopy()
	setConditions(&next.Status, found, metav1.Now())
	if equality.Semantic.DeepEqual(namespace.Status, next.Status) {
		return namespace, nil
	}
	updated, err := c.client.UpdateStatus(ctx, next, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("writing the status of namespace %s: %w", namespace.Name, err)
	}
	return updated, nil
}

// finalize removes Kubernetes' finalizer from an empty namespace, which then disappears unless it
// has others.
func (c *Controller) finalize(ctx context.Context, namespace *corev1.Namespace) error {
	namespace.Spec.Finalizers = slices.DeleteFunc(namespace.Spec.Finalizers, func(f corev1.FinalizerName) bool {
		return f == corev1.FinalizerKubernetes
	})
	_, err := c.client.UpdateSubresource(ctx, namespace, "finalize", metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalizing namespace %s: %w", namespace.Name, err)
	}
	return nil
}
