// Package csrcleaner deletes CertificateSigningRequests that are no longer needed (kubernetes,
// pkg/controller/certificates/cleaner).
package csrcleaner

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	name = "certificatesigningrequest-cleaner-controller"
	// decidedLife is how long a request is kept after its certificate was issued, or after it was
	// denied or failed. pendingLife is how long any other request is kept.
	decidedLife = time.Hour
	pendingLife = 24 * time.Hour
)

// Controller is the cleaner.
type Controller struct {
	cfg      control.Config
	requests informer.SharedInformer[*certificatesv1.CertificateSigningRequest]
}

// New returns the controller and requests its informer.
func New(cfg control.Config) (*Controller, error) {
	return &Controller{cfg: cfg, requests: informer.For[*certificatesv1.CertificateSigningRequest](cfg.Informers)}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: 1, Resource: "certificatesigningrequests", Reconcile: c.reconcile,
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	err := control.Handle(&handlers, c.requests, reconcile.EnqueueObject[*certificatesv1.CertificateSigningRequest](queue.Enqueue))
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	request, found := c.requests.Indexer().GetByKey(key)
	if !found || request.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	end, reason := deadline(request)
	if end.IsZero() {
		return reconcile.Result{}, nil
	}
	if left := time.Until(end); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	err := client.Of[*certificatesv1.CertificateSigningRequest](c.cfg.Client).Delete(ctx, "", key, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(request.UID)),
	})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return reconcile.Result{}, nil // Gone, or another has taken its name.
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("deleting CertificateSigningRequest %s, which %s: %w", key, reason, err)
	}
	c.cfg.Logger.Info("certificate signing request deleted", "name", key, "reason", reason)
	return reconcile.Result{}, nil
}

// deadline returns when a request is to be deleted, and why; the zero time means never.
func deadline(request *certificatesv1.CertificateSigningRequest) (end time.Time, reason string) {
	sooner := func(since metav1.Time, life time.Duration, why string) {
		if since.IsZero() {
			return
		}
		if at := since.Add(life); end.IsZero() || at.Before(end) {
			end, reason = at, why
		}
	}
	issued := request.Status.Certificate != nil
	for _, condition := range request.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateApproved:
			if !issued {
				sooner(condition.LastUpdateTime, pendingLife, "was approved and never issued")
				continue
			}
			sooner(condition.LastUpdateTime, decidedLife, "was approved")
			sooner(notAfter(request.Status.Certificate), 0, "has an expired certificate")
		case certificatesv1.CertificateDenied:
			sooner(condition.LastUpdateTime, decidedLife, "was denied")
		case certificatesv1.CertificateFailed:
			sooner(condition.LastUpdateTime, decidedLife, "failed")
		}
	}
	if len(request.Status.Conditions) == 0 {
		sooner(request.CreationTimestamp, pendingLife, "was never handled")
	}
	return end, reason
}

// notAfter returns when the first certificate of a PEM chain expires. It returns the zero time if
// the certificate is unreadable: the request then expires by age.
func notAfter(chain []byte) metav1.Time {
	block, _ := pem.Decode(chain)
	if block == nil {
		return metav1.Time{}
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return metav1.Time{}
	}
	return metav1.NewTime(certificate.NotAfter)
}
