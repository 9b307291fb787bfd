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

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/bootstraptoken"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

// name is Kubernetes' name for the work queue and its metrics.
const name = "token_cleaner"

// Controller is the token cleaner.
type Controller struct {
	cfg     control.Config
	secrets informer.SharedInformer[*corev1.Secret]
}

// New returns the controller and requests its informer, for the one namespace where bootstrap
// tokens are valid.
func New(cfg control.Config) (*Controller, error) {
	return &Controller{cfg: cfg, secrets: bootstraptoken.Informer(cfg.Informers)}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: 1, Resource: "secrets", Reconcile: c.reconcile,
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	err := control.Handle(&handlers, c.secrets, informer.FilteringResourceEventHandler[*corev1.Secret]{
		FilterFunc: bootstraptoken.Is,
		Handler:    reconcile.EnqueueObject[*corev1.Secret](queue.Enqueue),
	})
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	secret, found := c.secrets.Indexer().GetByKey(key)
	if !found || !bootstraptoken.Is(secret) || secret.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	left, expired := bootstrapsecrets.GetExpiration(secret, time.Now())
	if !expired {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	err := client.Of[*corev1.Secret](c.cfg.Client).Delete(ctx, secret.Namespace, secret.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(secret.UID)),
	})
	// The token is gone, or another has taken its name: this one is deleted either way.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return reconcile.Result{}, fmt.Errorf("deleting the expired bootstrap token %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}
