// Package csrcleaner deletes CertificateSigningRequests that are no longer needed (kubernetes,
// pkg/controller/certificates/cleaner).
package csrcleaner

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "certificatesigningrequest-cleaner-controller"
	// decidedLife is how long a request is kept after its certificate was issued, or after it was
	// denied or failed. pendingLife is how long any other request is kept.
	decidedLife = time.Hour
	pendingLife = 24 * time.Hour
)

// reconciler reconciles CertificateSigningRequests.
type reconciler struct {
	requests *controller.Objects[*certificatesv1.CertificateSigningRequest]
	logger   *slog.Logger
}

// New declares the cleaner.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{requests: controller.For[*certificatesv1.CertificateSigningRequest](d), logger: d.Logger}
	return &controller.Spec{
		Name: name, Resource: "certificatesigningrequests", Unhurried: true, For: r.requests, Reconcile: r.reconcile,
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	request, found := r.requests.Get(key)
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
	err := r.requests.Client.Delete(ctx, "", key.Name, metav1.DeleteOptions{
		Preconditions: metav1.NewUIDPreconditions(string(request.UID)),
	})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return reconcile.Result{}, nil // Gone, or another has taken its name.
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("deleting CertificateSigningRequest %s, which %s: %w", key, reason, err)
	}
	r.logger.Info("certificate signing request deleted", "name", key.Name, "reason", reason)
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
