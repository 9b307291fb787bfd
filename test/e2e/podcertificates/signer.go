// Package podcertificates has a signer of PodCertificateRequests for tests. It is not for use elsewhere: it
// signs every request that names it, and keeps its key in memory.
package podcertificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net/url"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/client"
)

// life is the longest validity of a certificate.
const life = 24 * time.Hour

// Signer signs PodCertificateRequests. A certificate has one name, the URI
// spiffe://cluster.local/ns/NAMESPACE/sa/SERVICEACCOUNT.
type Signer struct {
	name string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// New returns a signer with a new authority. Name is its spec.signerName, for example example.com/test.
func New(name string) (*Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("creating the key of the signer %s: %w", name, err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(10 * life),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("creating the authority of the signer %s: %w", name, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading the authority of the signer %s: %w", name, err)
	}
	return &Signer{name: name, cert: cert, key: key}, nil
}

// Authority returns the certificate that verifies those of pods.
func (s *Signer) Authority() *x509.Certificate { return s.cert }

// SignPending signs all requests that name this signer and have no outcome, and returns how many it signed.
func (s *Signer) SignPending(ctx context.Context, api client.Interface) (int, error) {
	requests := client.Of[*certificatesv1.PodCertificateRequest](api)
	pending, _, err := requests.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return 0, fmt.Errorf("listing PodCertificateRequests: %w", err)
	}
	signed := 0
	for _, request := range pending {
		if request.Spec.SignerName != s.name || len(request.Status.Conditions) > 0 {
			continue
		}
		if err := s.sign(request); err != nil {
			return signed, fmt.Errorf("signing PodCertificateRequest %s/%s: %w", request.Namespace, request.Name, err)
		}
		_, err := requests.UpdateStatus(ctx, request, metav1.UpdateOptions{})
		switch {
		case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		case err != nil:
			return signed, fmt.Errorf("writing the certificate of PodCertificateRequest %s/%s: %w", request.Namespace, request.Name, err)
		default:
			signed++
		}
	}
	return signed, nil
}

// sign sets the status of a request.
func (s *Signer) sign(request *certificatesv1.PodCertificateRequest) error {
	stub, err := x509.ParseCertificateRequest(request.Spec.StubPKCS10Request)
	if err != nil {
		return fmt.Errorf("reading the pod's key: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return fmt.Errorf("choosing a serial number: %w", err)
	}
	// The times in the status must be those in the certificate, which has whole seconds.
	begin := time.Now().Add(-time.Minute).Truncate(time.Second)
	end := begin.Add(min(life, time.Duration(*request.Spec.MaxExpirationSeconds)*time.Second))
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, NotBefore: begin, NotAfter: end, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
		URIs:        []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: "/ns/" + request.Namespace + "/sa/" + request.Spec.ServiceAccountName}},
	}, s.cert, stub.PublicKey, s.key)
	if err != nil {
		return err
	}
	refresh := end.Add(-end.Sub(begin) / 3)
	request.Status = certificatesv1.PodCertificateRequestStatus{
		Conditions: []metav1.Condition{{
			Type: certificatesv1.PodCertificateRequestConditionTypeIssued, Status: metav1.ConditionTrue,
			Reason: "Signed", Message: "signed by a signer for tests", LastTransitionTime: metav1.Now(),
		}},
		CertificateChain: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		NotBefore:        &metav1.Time{Time: begin}, NotAfter: &metav1.Time{Time: end}, BeginRefreshAt: &metav1.Time{Time: refresh},
	}
	return nil
}
