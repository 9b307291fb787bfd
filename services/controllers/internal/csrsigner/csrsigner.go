// Package csrsigner signs the approved CertificateSigningRequests of Kubernetes' own signers with
// the plane's certificate authority (kubernetes, pkg/controller/certificates/signer).
package csrsigner

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/control"
)

const (
	name           = "csrsigning"
	defaultWorkers = 5
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

// Controller is the signer.
type Controller struct {
	cfg       control.Config
	authority *Authority
	duration  time.Duration
	requests  informer.SharedInformer[*csr]
	client    client.Resource[*csr]
}

// New returns the controller and requests its informer. It signs with authority; certificates are
// valid for at most duration.
func New(cfg control.Config, authority *Authority, duration time.Duration) (*Controller, error) {
	return &Controller{
		cfg: cfg, authority: authority, duration: duration,
		requests: informer.For[*csr](cfg.Informers), client: client.Of[*csr](cfg.Client),
	}, nil
}

// Run reconciles until ctx ends. It may be called again after it has returned.
func (c *Controller) Run(ctx context.Context) error {
	var handlers control.Handlers
	queue := reconcile.New(reconcile.Config[string]{
		Name: name, Workers: c.cfg.WorkersOr(defaultWorkers), Resource: "certificatesigningrequests",
		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
			return control.Requeue(reconcile.Result{}, c.reconcile(ctx, key))
		},
		WaitFor: handlers.Checkers, Reads: &handlers.Reads,
		Logger: c.cfg.Logger, Registerer: c.cfg.Registerer, Trace: c.cfg.Trace,
	})
	err := control.Handle(&handlers, c.requests, reconcile.EnqueueObject[*csr](queue.Enqueue))
	if err == nil {
		err = queue.Run(ctx)
	}
	return handlers.Remove(err)
}

func (c *Controller) reconcile(ctx context.Context, key string) error {
	shared, found := c.requests.Indexer().GetByKey(key)
	if !found || len(shared.Status.Certificate) != 0 || !mayBeSigned(shared) {
		return nil
	}
	rule := ruleOf(shared.Spec.SignerName)
	if rule == nil {
		return nil // another signer's
	}
	parsed, err := parse(shared.Spec.Request)
	if err != nil {
		return reconcile.TerminalError(fmt.Errorf("unable to parse csr %q: %w", key, err))
	}
	request := shared.DeepCopy()
	if refusal := rule(parsed, shared.Spec.Usages); refusal != nil {
		request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: failedReason,
			Message: refusal.Error(), LastUpdateTime: metav1.Now(),
		})
		return c.write(ctx, request, "error adding failure condition for csr")
	}
	der, err := c.authority.sign(parsed, shared.Spec.Usages, c.life(shared.Spec.ExpirationSeconds), time.Now())
	if err != nil {
		return fmt.Errorf("error auto signing csr %q: %w", key, err)
	}
	request.Status.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := c.write(ctx, request, "error updating signature for csr"); err != nil {
		return err
	}
	c.cfg.Logger.Info("certificate signed", "name", key, "signer", shared.Spec.SignerName, "subject", parsed.Subject, "requester", shared.Spec.Username)
	return nil
}

// write writes a request's status, and ignores that the request is gone.
func (c *Controller) write(ctx context.Context, request *csr, what string) error {
	_, err := c.client.UpdateStatus(ctx, request, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %q: %w", what, request.Name, err)
	}
	return nil
}

// life returns the validity of a certificate, given the seconds that the request asks for.
func (c *Controller) life(asked *int32) time.Duration {
	if asked == nil {
		return c.duration
	}
	return min(max(time.Duration(*asked)*time.Second, MinDuration), c.duration)
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
