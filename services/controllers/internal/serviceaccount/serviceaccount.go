// Package serviceaccount keeps a ServiceAccount named default in every namespace: pods that name no
// other run as it (kubernetes, pkg/controller/serviceaccount).
package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	name = "serviceaccount-controller"
	// account is the name of the ServiceAccount.
	account = "default"
)

// Controller is the ServiceAccount controller.
type Controller struct {
	cfg        control.Config
	namespaces informer.SharedInformer[*corev1.Namespace]
	accounts   informer.SharedInformer[*corev1.ServiceAccount]
}

// New returns the controller and requests its informers.
func New(cfg control.Config) (*Controller, error) {
	return &Controller{
		cfg:        cfg,
		namespaces: informer.For[*corev1.Namespace](cfg.Informers),
		accounts:   informer.For[*corev1.ServiceAccount](cfg.Informers),
	}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(1), Resource: "namespaces", Reconcile: c.reconcile,
		Priority: true, WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	err := control.Handle(&handlers, c.namespaces, reconcile.ByPriority(queue,
		func(enqueue func(string)) informer.ResourceEventHandler[*corev1.Namespace] {
			return reconcile.EnqueueObject[*corev1.Namespace](enqueue)
		}))
	if err == nil {
		err = control.Handle(&handlers, c.accounts, informer.ResourceEventHandlerFuncs[*corev1.ServiceAccount]{
			DeleteFunc: func(gone informer.DeletedObject[*corev1.ServiceAccount]) {
				if gone.OptionalObj != nil && gone.OptionalObj.Name == account {
					queue.Enqueue(gone.OptionalObj.Namespace)
				}
			},
		})
	}
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	namespace, found := c.namespaces.Indexer().GetByKey(key)
	if !found || namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating {
		return reconcile.Result{}, nil
	}
	if _, found := c.accounts.Indexer().GetByKey(informer.KeyOf(key, account)); found {
		return reconcile.Result{}, nil
	}
	_, err := client.Of[*corev1.ServiceAccount](c.cfg.Client).Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: key, Name: account},
	}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, fmt.Errorf("creating ServiceAccount %s/%s: %w", key, account, err)
}
