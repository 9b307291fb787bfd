// Package csrapprover approves the CertificateSigningRequests for nodes' client certificates if the
// requester may have one (kubernetes, pkg/controller/certificates/approver).
//
// Unlike in Kubernetes, a request from anyone but the node itself waits while the node is alive. A
// bootstrap token is for joining a node, not for taking over an existing one.
package csrapprover

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
	"github.com/garboard/garboard/libs/client/events"
	"github.com/garboard/garboard/libs/informer"
	"github.com/garboard/garboard/libs/informer/reconcile"
	"github.com/garboard/garboard/services/controllers/internal/controller"
)

const (
	name = "certificatesigningrequest-approving-controller"
	// queue is Kubernetes' name for the work queue and its metrics.
	queue   = "certificate"
	workers = 5
	// maxDelay bounds how long a request waits before its requester's rights are checked again.
	maxDelay = 1000 * time.Second
)

// recognizer is a kind of request that is approved if the requester may create the given
// subresource of certificatesigningrequests.
type recognizer struct {
	recognizes  func(*certificatesv1.CertificateSigningRequest, *x509.CertificateRequest) bool
	subresource string
	message     string
}

// recognizers returns the recognizers in the order in which they are tried.
func recognizers() []recognizer {
	return []recognizer{
		{isSelfNodeClient, "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."},
		{isNodeClient, "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."},
	}
}

// reconciler reconciles CertificateSigningRequests.
type reconciler struct {
	requests *controller.Objects[*certificatesv1.CertificateSigningRequest]
	nodes    informer.SharedInformer[*corev1.Node]
	live     client.Resource[*corev1.Node]
	events   *events.Recorder
	reviews  client.Resource[*authorizationv1.SubjectAccessReview]
	logger   *slog.Logger
}

// New declares the approver.
func New(d controller.Deps) *controller.Spec {
	r := &reconciler{
		requests: controller.For[*certificatesv1.CertificateSigningRequest](d), nodes: informer.For[*corev1.Node](d.Informers),
		live:   client.Of[*corev1.Node](d.Client),
		events: d.Events("certificate-controller"), reviews: client.Of[*authorizationv1.SubjectAccessReview](d.Client), logger: d.Logger,
	}
	return &controller.Spec{
		Name: name, Queue: queue, Resource: "certificatesigningrequests", Workers: workers, Unhurried: true, Events: r.events,
		For: r.requests, Watches: []controller.Watch{controller.On(r.nodes, r.nodeChanged)}, Reconcile: r.reconcile,
	}
}

func (r *reconciler) reconcile(ctx context.Context, key controller.Key) (reconcile.Result, error) {
	request, found := r.requests.Get(key)
	if !found || len(request.Status.Certificate) != 0 || decided(request) {
		return reconcile.Result{}, nil
	}
	parsed, err := parse(request.Spec.Request)
	if err != nil {
		return reconcile.Result{}, reconcile.TerminalError(fmt.Errorf("unable to parse csr %q: %w", key.Name, err))
	}
	var tried []string
	for _, each := range recognizers() {
		if !each.recognizes(request, parsed) {
			continue
		}
		tried = append(tried, each.subresource)
		allowed, err := r.allowed(ctx, request, each.subresource)
		if err != nil {
			return reconcile.Result{}, fmt.Errorf("asking whether the requester of csr %q may have it: %w", key, err)
		}
		if allowed && !isSelf(request, parsed) {
			node := nodeOf(parsed.Subject.CommonName)
			living, err := r.living(ctx, node)
			if err != nil {
				return reconcile.Result{}, err
			}
			if living {
				return r.hold(request, node), nil
			}
		}
		if allowed {
			return reconcile.Result{}, r.approve(ctx, request, each.message)
		}
	}
	if len(tried) == 0 {
		return reconcile.Result{}, nil
	}
	r.logger.Debug("recognized csr but subject access review was not approved", "name", key.Name, "tried", tried)
	// The right may be granted later: the older the request, the less often the check is repeated.
	age := time.Since(request.CreationTimestamp.Time)
	return reconcile.Result{RequeueAfter: min(max(age, time.Second), maxDelay)}, nil
}

func (r *reconciler) allowed(ctx context.Context, request *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range request.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	answer, err := r.reviews.Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: request.Spec.Username, UID: request.Spec.UID, Groups: request.Spec.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Subresource: subresource, Verb: "create",
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return answer.Status.Allowed, nil
}

func (r *reconciler) approve(ctx context.Context, shared *certificatesv1.CertificateSigningRequest, message string) error {
	request := shared.DeepCopy()
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
		LastUpdateTime: metav1.Now(),
	})
	_, err := r.requests.Client.UpdateSubresource(ctx, request, "approval", metav1.UpdateOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("error updating approval for csr: %w", err)
	}
	return nil
}

// decided reports whether a request is approved or denied already.
func decided(request *certificatesv1.CertificateSigningRequest) bool {
	return slices.ContainsFunc(request.Status.Conditions, func(c certificatesv1.CertificateSigningRequestCondition) bool {
		return c.Type == certificatesv1.CertificateApproved || c.Type == certificatesv1.CertificateDenied
	})
}

func parse(text []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}

func isSelfNodeClient(request *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) bool {
	return isSelf(request, parsed) && isNodeClient(request, parsed)
}

// isSelf reports whether the requester asks for a certificate for itself.
func isSelf(request *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) bool {
	return request.Spec.Username == parsed.Subject.CommonName
}

// isNodeClient reports whether a request is for a node's client certificate and for nothing else
// (kubernetes, pkg/apis/certificates.ValidateKubeletClientCSR).
func isNodeClient(request *certificatesv1.CertificateSigningRequest, parsed *x509.CertificateRequest) bool {
	return request.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName &&
		slices.Equal(parsed.Subject.Organization, []string{"system:nodes"}) &&
		strings.HasPrefix(parsed.Subject.CommonName, userPrefix) &&
		len(parsed.DNSNames) == 0 && len(parsed.EmailAddresses) == 0 && len(parsed.IPAddresses) == 0 && len(parsed.URIs) == 0 &&
		areClientUsages(request.Spec.Usages)
}

func areClientUsages(usages []certificatesv1.KeyUsage) bool {
	needed := map[certificatesv1.KeyUsage]bool{}
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth:
			needed[usage] = true
		case certificatesv1.UsageKeyEncipherment: // Allowed because RSA keys have it.
		default:
			return false
		}
	}
	return len(needed) == 2
}
