// Package podcertificaterequestcleaner deletes PodCertificateRequests a quarter of an hour after their
// creation, whatever became of them (kubernetes, pkg/controller/certificates/cleaner, PCRCleanerController).
package podcertificaterequestcleaner

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "podcertificaterequest-cleaner-controller"
	// life is the age at which a request is deleted.
	life = 15 * time.Minute
)

// reconciler reconciles PodCertificateRequests.
type reconciler struct {
	requests *controller.Objects[*certificatesv1.PodCertificateRequest]
}

// New declares the controller.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{requests: controller.For[*certificatesv1.PodCertificateRequest](d)}
	// Its age does not depend on what else changes.
	r.requests.Changed = func(old, now *certificatesv1.PodCertificateRequest) bool { return old.UID != now.UID }
	return &controller.Spec{
		Name: name, Resource: "podcertificaterequests", Unhurried: true, For: r.requests, Reconcile: r.reconcile,
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	request, found := r.requests.Get(key)
	if !found || request.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	if left := time.Until(request.CreationTimestamp.Add(life)); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	err := r.requests.Client.Delete(ctx, key.Namespace, key.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(request.UID)),
	})
	// It is gone, or another has taken its name: this one is deleted either way.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return reconcile.Result{}, fmt.Errorf("deleting PodCertificateRequest %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}
