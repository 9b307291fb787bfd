package csrsigner

import (
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// legacySigner is the signer of requests made by the first version of the API.
const legacySigner = "kubernetes.io/legacy-unknown"

// rule returns an error that says why a signer rejects a request; nil if it signs.
type rule func(request *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error

// ruleOf returns the rule of one of Kubernetes' signers; nil for any other.
func ruleOf(signer string) rule {
	switch signer {
	case certificatesv1.KubeAPIServerClientSignerName:
		return clientRule
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return nodeClientRule
	case certificatesv1.KubeletServingSignerName:
		return nodeServingRule
	case legacySigner:
		// The approver alone is responsible for what these contain.
		return func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil }
	}
	return nil
}

// clientRule is the rule for client certificates of any user. Admission decides on membership of
// system:masters.
func clientRule(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	for _, usage := range usages {
		switch usage {
		case certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth:
		default:
			return fmt.Errorf("invalid usage for client certificate: %s", usage)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageClientAuth) {
		return fmt.Errorf("missing required usage for client certificate: %s", certificatesv1.UsageClientAuth)
	}
	return nil
}

// nodeClientRule is the rule for nodes' client certificates.
func nodeClientRule(request *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := ofNodes(request); err != nil {
		return err
	}
	switch {
	case len(request.DNSNames) > 0:
		return errors.New("DNS subjectAltNames are not allowed")
	case len(request.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // Kubernetes' words, which users see.
	case len(request.IPAddresses) > 0:
		return errors.New("IP subjectAltNames are not allowed")
	case len(request.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	if err := ofOneNode(request); err != nil {
		return err
	}
	return exactly(usages, certificatesv1.UsageClientAuth)
}

// nodeServingRule is the rule for nodes' serving certificates.
func nodeServingRule(request *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error {
	if err := ofNodes(request); err != nil {
		return err
	}
	switch {
	case len(request.DNSNames) == 0 && len(request.IPAddresses) == 0:
		return errors.New("DNS or IP subjectAltName is required")
	case len(request.EmailAddresses) > 0:
		return errors.New("Email subjectAltNames are not allowed") //nolint:staticcheck // Kubernetes' words, which users see.
	case len(request.URIs) > 0:
		return errors.New("URI subjectAltNames are not allowed")
	}
	if err := exactly(usages, certificatesv1.UsageServerAuth); err != nil {
		return err
	}
	return ofOneNode(request)
}

func ofNodes(request *x509.CertificateRequest) error {
	if !slices.Equal(request.Subject.Organization, []string{"system:nodes"}) {
		return errors.New("subject organization is not system:nodes")
	}
	return nil
}

func ofOneNode(request *x509.CertificateRequest) error {
	if !strings.HasPrefix(request.Subject.CommonName, "system:node:") {
		return errors.New("subject common name does not begin with system:node:") //nolint:staticcheck // Kubernetes' words, which users see.
	}
	return nil
}

// exactly checks that usages contain digital signature and purpose, and nothing else but key
// encipherment, which only RSA keys can do.
func exactly(usages []certificatesv1.KeyUsage, purpose certificatesv1.KeyUsage) error {
	all := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, purpose}
	slices.Sort(all)
	for _, usage := range usages {
		if !slices.Contains(all, usage) {
			return fmt.Errorf("usages did not match %v", all)
		}
	}
	if !slices.Contains(usages, certificatesv1.UsageDigitalSignature) || !slices.Contains(usages, purpose) {
		return fmt.Errorf("usages did not match %v", all)
	}
	return nil
}
