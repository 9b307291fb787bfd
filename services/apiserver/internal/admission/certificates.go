package admission

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// checkApproval lets a user approve or deny a certificate request only with the right to do so for
// the request's signer.
func checkApproval(cfg Config) func(context.Context, *Request) error {
	return func(ctx context.Context, req *Request) error {
		old, ok := req.Old.(*certificatesv1.CertificateSigningRequest)
		if !ok || req.Verb != Update || req.Subresource != "approval" {
			return nil
		}
		// Check the old signer, since the same update might change it.
		if signer := old.Spec.SignerName; !maySigner(ctx, cfg, "approve", signer) {
			return forbidden(req, fmt.Errorf("user not permitted to approve requests with signerName %q", signer))
		}
		return nil
	}
}

// checkSigning lets a user issue a certificate only with the right to do so for the request's
// signer.
func checkSigning(cfg Config) func(context.Context, *Request) error {
	return func(ctx context.Context, req *Request) error {
		old, had := req.Old.(*certificatesv1.CertificateSigningRequest)
		csr, ok := req.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok || !had || req.Verb != Update || req.Subresource != "status" {
			return nil
		}
		if bytes.Equal(old.Status.Certificate, csr.Status.Certificate) && equality.Semantic.DeepEqual(old.Status.Conditions, csr.Status.Conditions) {
			return nil
		}
		if signer := old.Spec.SignerName; !maySigner(ctx, cfg, "sign", signer) {
			return forbidden(req, fmt.Errorf("user not permitted to sign requests with signerName %q", signer))
		}
		return nil
	}
}

// maySigner reports whether the user may do verb for a signer, or for all of its domain.
func maySigner(ctx context.Context, cfg Config, verb, signer string) bool {
	user, _ := authn.UserFrom(ctx)
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		// An error counts as a refusal: there may be another name to try, and Kubernetes tells the
		// user no more.
		decision, _, err := cfg.Authorizer.Authorize(ctx, user, authz.Attributes{
			Verb: verb, Group: certificatesv1.GroupName, Version: "*", Resource: "signers", Name: name,
		})
		if err == nil && decision == authz.Allow {
			return true
		}
	}
	return false
}

// checkSubject refuses requests for a client certificate of the group system:masters.
func checkSubject(_ context.Context, req *Request) error {
	csr, ok := req.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || req.Verb != Create || req.Subresource != "" || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	subject, err := parseRequest(csr.Spec.Request)
	if err != nil {
		return forbidden(req, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(subject.Subject.Organization, authn.GroupMasters) {
		return forbidden(req, fmt.Errorf("use of %s signer with system:masters group is not allowed", csr.Spec.SignerName))
	}
	return nil
}

func parseRequest(data []byte) (*x509.CertificateRequest, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return nil, errors.New("PEM block type must be CERTIFICATE REQUEST")
	}
	return x509.ParseCertificateRequest(block.Bytes)
}
