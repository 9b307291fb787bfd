// Package certificates keeps users from approving, signing or requesting certificates that they
// must not have.
package certificates

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

	"github.com/garboard/garboard/services/apiserver/internal/admission"
	"github.com/garboard/garboard/services/apiserver/internal/http/authn"
	"github.com/garboard/garboard/services/apiserver/internal/http/authz"
)

// Approval returns the plugin CertificateApproval. It lets a user approve or deny a certificate
// request only with the right to do so for the request's signer.
func Approval(authorizer authz.Authorizer) admission.Plugin {
	return admission.Plugin{Validate: func(ctx context.Context, req *admission.Request) error {
		old, ok := req.Old.(*certificatesv1.CertificateSigningRequest)
		if !ok || req.Verb != admission.Update || req.Subresource != "approval" {
			return nil
		}
		// Check the old signer, since the same update might change it.
		if signer := old.Spec.SignerName; !maySigner(ctx, authorizer, "approve", signer) {
			return admission.Forbidden(req, fmt.Errorf("user not permitted to approve requests with signerName %q", signer))
		}
		return nil
	}}
}

// Signing returns the plugin CertificateSigning. It lets a user issue a certificate only with the
// right to do so for the request's signer.
func Signing(authorizer authz.Authorizer) admission.Plugin {
	return admission.Plugin{Validate: func(ctx context.Context, req *admission.Request) error {
		old, had := req.Old.(*certificatesv1.CertificateSigningRequest)
		csr, ok := req.Object.(*certificatesv1.CertificateSigningRequest)
		if !ok || !had || req.Verb != admission.Update || req.Subresource != "status" {
			return nil
		}
		if bytes.Equal(old.Status.Certificate, csr.Status.Certificate) && equality.Semantic.DeepEqual(old.Status.Conditions, csr.Status.Conditions) {
			return nil
		}
		if signer := old.Spec.SignerName; !maySigner(ctx, authorizer, "sign", signer) {
			return admission.Forbidden(req, fmt.Errorf("user not permitted to sign requests with signerName %q", signer))
		}
		return nil
	}}
}

// maySigner reports whether the user may do verb for a signer, or for all of its domain.
func maySigner(ctx context.Context, authorizer authz.Authorizer, verb, signer string) bool {
	user, _ := authn.UserFrom(ctx)
	domain, _, _ := strings.Cut(signer, "/")
	for _, name := range []string{signer, domain + "/*"} {
		// An error counts as a refusal: there may be another name to try, and Kubernetes tells the
		// user no more.
		decision, _, err := authorizer.Authorize(ctx, user, authz.Attributes{
			Verb: verb, Group: certificatesv1.GroupName, Version: "*", Resource: "signers", Name: name,
		})
		if err == nil && decision == authz.Allow {
			return true
		}
	}
	return false
}

// SubjectRestriction returns the plugin CertificateSubjectRestriction, which refuses requests for a
// client certificate of the group system:masters.
func SubjectRestriction() admission.Plugin { return admission.Plugin{Validate: checkSubject} }

// checkSubject refuses requests for a client certificate of the group system:masters.
func checkSubject(_ context.Context, req *admission.Request) error {
	csr, ok := req.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok || req.Verb != admission.Create || req.Subresource != "" || csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName {
		return nil
	}
	subject, err := parseRequest(csr.Spec.Request)
	if err != nil {
		return admission.Forbidden(req, fmt.Errorf("failed to parse CSR: %w", err))
	}
	if slices.Contains(subject.Subject.Organization, authn.GroupMasters) {
		return admission.Forbidden(req, fmt.Errorf("use of %s signer with system:masters group is not allowed", csr.Spec.SignerName))
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
