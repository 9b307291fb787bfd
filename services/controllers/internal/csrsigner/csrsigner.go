// Package csrsigner signs the approved CertificateSigningRequests of Kubernetes' own signers with
// the plane's certificate authority (kubernetes, pkg/controller/certificates/signer).
package csrsigner

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "certificatesigningrequest-signing-controller"
	// queue is Kubernetes' name for the work queue and its metrics.
	queue   = "csrsigning"
	workers = 5
	// DefaultDuration is the default for the longest validity of a certificate
	// (kube-controller-manager's --cluster-signing-duration).
	DefaultDuration = 365 * 24 * time.Hour
	// MinDuration is the shortest validity of a certificate, even if the request asks for less.
	MinDuration = 10 * time.Minute
	// failedReason is the reason of the Failed condition on a request that its signer does not
	// allow.
	failedReason = "SignerValidationFailure"
)

// csr abbreviates the type's long name.
type csr = certificatesv1.CertificateSigningRequest

// reconciler reconciles CertificateSigningRequests.
type reconciler struct {
	authority *Authority
	duration  time.Duration
	requests  *controller.Objects[*csr]
	logger    *slog.Logger
}

// New declares the signer. It signs with authority; certificates are valid for at most duration.
func New(d controller.Deps, authority *Authority, duration time.Duration) *controller.Spec {
	r := &reconciler{authority: authority, duration: duration, requests: controller.For[*csr](d), logger: d.Logger}
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "certificatesigningrequests", Workers: workers, Unhurried: true, For: r.requests,
		Reconcile: func(ctx context.Context, key controller.Key) (reconcile.Result, error) {
			return reconcile.Result{}, r.reconcile(ctx, key)
		},
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) error {
	shared, found := r.requests.Get(key)
	if !found || len(shared.Status.Certificate) != 0 || !mayBeSigned(shared) {
		return nil
	}
	rule := ruleOf(shared.Spec.SignerName)
	if rule == nil {
		return nil // another signer's
	}
	parsed, err := parse(shared.Spec.Request)
	if err != nil {
		return reconcile.TerminalError(fmt.Errorf("unable to parse csr %q: %w", key.Name, err))
	}
	request := shared.DeepCopy()
	if refusal := rule(parsed, shared.Spec.Usages); refusal != nil {
		request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: failedReason,
			Message: refusal.Error(), LastUpdateTime: metav1.Now(),
		})
		return r.write(ctx, request, "error adding failure condition for csr")
	}
	der, err := r.authority.sign(parsed, shared.Spec.Usages, r.life(shared.Spec.ExpirationSeconds), time.Now())
	if err != nil {
		return fmt.Errorf("error auto signing csr %q: %w", key.Name, err)
	}
	request.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := r.write(ctx, request, "error updating signature for csr"); err != nil {
		return err
	}
	r.logger.Info("certificate signed", "name", key.Name, "signer", shared.Spec.SignerName, "subject", parsed.Subject, "requester", shared.Spec.Username)
	return nil
}

// write writes a request's status, and ignores that the request is gone.
func (r *reconciler) write(ctx context.Context, request *csr, what string) error {
	_, err := r.requests.Client.UpdateStatus(ctx, request, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q: %w", what, request.Name, err)
	}
	return nil
}

// life returns the validity of a certificate, given the seconds that the request asks for.
func (r *reconciler) life(asked *int32) time.Duration {
	if asked == nil {
		return r.duration
	}
	return min(max(time.Duration(*asked)*time.Second, MinDuration), r.duration)
}

// mayBeSigned reports whether a request is approved, and neither denied nor failed.
func mayBeSigned(request *csr) bool {
	has := func(kind certificatesv1.RequestConditionType) bool {
		return slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
			// Requests that predate the status of conditions have none.
			return c.Type == kind && (c.Status == corev1.ConditionTrue || c.Status == "")
		})
	}
	return has(certificatesv1.CertificateApproved) && !has(certificatesv1.CertificateDenied) && !has(certificatesv1.CertificateFailed)
}

func parse(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
