// Package tokencleaner deletes bootstrap tokens that have expired (kubernetes,
// pkg/controller/bootstrap, TokenCleaner).
package tokencleaner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapsecrets "k8s.io/cluster-bootstrap/util/secrets"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/bootstraptoken"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "token-cleaner-controller"
	// queue is Kubernetes' name for the work queue and its metrics.
	queue = "token_cleaner"
)

// reconciler reconciles bootstrap tokens.
type reconciler struct {
	secrets *controller.Objects[*corev1.Secret]
}

// New declares the token cleaner.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{secrets: controller.ForView[*corev1.Secret](d, bootstraptoken.View())}
	r.secrets.Handle = bootstraptoken.Each(controller.Queue.Add)
	return &controller.Spec{Name: name, Queue: queue, Resource: "secrets", Unhurried: true, For: r.secrets, Reconcile: r.reconcile}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	secret, found := r.secrets.Get(key)
	if !found || !bootstraptoken.Is(secret) || secret.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	left, expired := bootstrapsecrets.GetExpiration(secret, time.Now())
	if !expired {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	err := r.secrets.Client.Delete(ctx, secret.Namespace, secret.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(secret.UID)),
	})
	// The token is gone, or another has taken its name: this one is deleted either way.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return reconcile.Result{}, fmt.Errorf("deleting the expired bootstrap token %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}
