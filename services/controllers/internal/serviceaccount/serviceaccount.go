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
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "serviceaccount-controller"
	// account is the name of the ServiceAccount.
	account = "default"
)

// reconciler reconciles namespaces.
type reconciler struct {
	namespaces *controller.Objects[*corev1.Namespace]
	accounts   informer.SharedInformer[*corev1.ServiceAccount]
	client     client.Resource[*corev1.ServiceAccount]
}

// New declares the ServiceAccount controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		namespaces: controller.For[*corev1.Namespace](d), accounts: informer.For[*corev1.ServiceAccount](d.Informers),
		client: client.Of[*corev1.ServiceAccount](d.Client),
	}
	return &controller.Spec{
		Name: name, Resource: "namespaces", For: r.namespaces,
		Watches: []controller.Watch{controller.On(r.accounts, accountChanged)}, Reconcile: r.reconcile,
	}
}

// accountChanged asks for a reconcile of the namespace that has lost its account.
func accountChanged(q controller.Queue, old, now *corev1.ServiceAccount) {
	if now == nil && old.Name == account {
		q.AddName("", old.Namespace)
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	namespace, found := r.namespaces.Get(key)
	if !found || namespace.DeletionTimestamp != nil || namespace.Status.Phase == corev1.NamespaceTerminating {
		return reconcile.Result{}, nil
	}
	if _, found := r.accounts.Indexer().GetByKey(informer.KeyOf(key.Name, account)); found {
		return reconcile.Result{}, nil
	}
	_, err := r.client.Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Name, Name: account},
	}, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, fmt.Errorf("creating ServiceAccount %s/%s: %w", key.Name, account, err)
}
