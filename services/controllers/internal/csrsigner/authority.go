package csrsigner

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

const (
	// backdate is how far in the past a certificate's validity begins, for clocks that are behind.
	backdate = 5 * time.Minute
	// short is the validity below which backdate would be a noticeable part: such a certificate is
	// valid for its whole duration from now on.
	short = 8 * time.Hour
)

// Authority is a certificate authority kept in two files, which are read again when they change.
type Authority struct {
	certFile, keyFile string
	logger            *slog.Logger

	mu        sync.Mutex
	text, key []byte
	pair      tls.Certificate
}

// NewAuthority reads the authority's certificate and key from PEM files.
func NewAuthority(certFile, keyFile string, logger *slog.Logger) (*Authority, error) {
	a := &Authority{certFile: certFile, keyFile: keyFile, logger: logger}
	if err := a.load(); err != nil {
		return nil, err
	}
	return a, nil
}

// current returns the authority: the last good one while its files are being replaced.
func (a *Authority) current() (*x509.Certificate, crypto.Signer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.load(); err != nil {
		a.logger.Warn("reading the certificate authority again failed; signing with the last good one", "err", err)
	}
	signer, ok := a.pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, nil, fmt.Errorf("the key of the certificate authority in %s cannot sign", a.keyFile)
	}
	return a.pair.Leaf, signer, nil
}

// load reads the files, and adopts their content if it is new and valid.
func (a *Authority) load() error {
	text, err := os.ReadFile(a.certFile)
	if err != nil {
		return fmt.Errorf("reading the certificate of the authority that signs certificates: %w", err)
	}
	key, err := os.ReadFile(a.keyFile)
	if err != nil {
		return fmt.Errorf("reading the key of the authority that signs certificates: %w", err)
	}
	if bytes.Equal(text, a.text) && bytes.Equal(key, a.key) {
		return nil
	}
	if n := certificates(text); n != 1 {
		return fmt.Errorf("%s holds %d certificates, must hold exactly one: the signing authority's", a.certFile, n)
	}
	pair, err := tls.X509KeyPair(text, key)
	if err != nil {
		return fmt.Errorf("%s and %s are not a certificate and its key: %w", a.certFile, a.keyFile, err)
	}
	if !pair.Leaf.IsCA {
		return fmt.Errorf("the certificate in %s is not a CA certificate", a.certFile)
	}
	if a.text != nil {
		a.logger.Info("certificate authority replaced", "file", a.certFile, "subject", pair.Leaf.Subject)
	}
	a.text, a.key, a.pair = text, key, pair
	return nil
}

func certificates(text []byte) (n int) {
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return n
		}
		if block.Type == "CERTIFICATE" {
			n++
		}
	}
}

// sign returns the certificate (DER) for a request. It has the subject and the names in the
// request, the usages of the API object and a random serial number. It has no extensions of the
// request's own, and is never a CA certificate.
func (a *Authority) sign(request *x509.CertificateRequest, usages []certificatesv1.KeyUsage, life time.Duration,
	now time.Time) ([]byte, error) {
	ca, signer, err := a.current()
	if err != nil {
		return nil, err
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	if !now.Before(ca.NotAfter) {
		return nil, fmt.Errorf("the signer has expired: NotAfter=%v", ca.NotAfter)
	}
	template := &x509.Certificate{
		Subject: request.Subject, DNSNames: request.DNSNames, IPAddresses: request.IPAddresses,
		EmailAddresses: request.EmailAddresses, URIs: request.URIs,
		BasicConstraintsValid: true,
		NotBefore:             now.Add(-backdate), NotAfter: now.Add(life),
	}
	if life >= short {
		template.NotAfter = template.NotAfter.Add(-backdate)
	}
	if template.NotAfter.After(ca.NotAfter) {
		template.NotAfter = ca.NotAfter
	}
	if template.KeyUsage, template.ExtKeyUsage, err = keyUsages(usages); err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, request.PublicKey, signer)
	if err != nil {
		return nil, fmt.Errorf("failed to sign certificate: %w", err)
	}
	return der, nil
}

// keyUsages translates the API's usages to those of X.509.
func keyUsages(usages []certificatesv1.KeyUsage) (x509.KeyUsage, []x509.ExtKeyUsage, error) {
	var plain x509.KeyUsage
	var extended []x509.ExtKeyUsage
	for _, usage := range usages {
		if bit := plainUsage(usage); bit != 0 {
			plain |= bit
		} else if purpose, ok := extendedUsage(usage); ok {
			extended = append(extended, purpose)
		} else {
			return 0, nil, errors.New("unrecognized usage value: " + string(usage))
		}
	}
	slices.Sort(extended)
	return plain, slices.Compact(extended), nil
}

func plainUsage(usage certificatesv1.KeyUsage) x509.KeyUsage {
	switch usage {
	case certificatesv1.UsageSigning, certificatesv1.UsageDigitalSignature:
		return x509.KeyUsageDigitalSignature
	case certificatesv1.UsageContentCommitment:
		return x509.KeyUsageContentCommitment
	case certificatesv1.UsageKeyEncipherment:
		return x509.KeyUsageKeyEncipherment
	case certificatesv1.UsageKeyAgreement:
		return x509.KeyUsageKeyAgreement
	case certificatesv1.UsageDataEncipherment:
		return x509.KeyUsageDataEncipherment
	case certificatesv1.UsageCertSign:
		return x509.KeyUsageCertSign
	case certificatesv1.UsageCRLSign:
		return x509.KeyUsageCRLSign
	case certificatesv1.UsageEncipherOnly:
		return x509.KeyUsageEncipherOnly
	case certificatesv1.UsageDecipherOnly:
		return x509.KeyUsageDecipherOnly
	}
	return 0
}

func extendedUsage(usage certificatesv1.KeyUsage) (x509.ExtKeyUsage, bool) {
	switch usage {
	case certificatesv1.UsageAny:
		return x509.ExtKeyUsageAny, true
	case certificatesv1.UsageServerAuth:
		return x509.ExtKeyUsageServerAuth, true
	case certificatesv1.UsageClientAuth:
		return x509.ExtKeyUsageClientAuth, true
	case certificatesv1.UsageCodeSigning:
		return x509.ExtKeyUsageCodeSigning, true
	case certificatesv1.UsageEmailProtection, certificatesv1.UsageSMIME:
		return x509.ExtKeyUsageEmailProtection, true
	case certificatesv1.UsageIPsecEndSystem:
		return x509.ExtKeyUsageIPSECEndSystem, true
	case certificatesv1.UsageIPsecTunnel:
		return x509.ExtKeyUsageIPSECTunnel, true
	case certificatesv1.UsageIPsecUser:
		return x509.ExtKeyUsageIPSECUser, true
	case certificatesv1.UsageTimestamping:
		return x509.ExtKeyUsageTimeStamping, true
	case certificatesv1.UsageOCSPSigning:
		return x509.ExtKeyUsageOCSPSigning, true
	case certificatesv1.UsageMicrosoftSGC:
		return x509.ExtKeyUsageMicrosoftServerGatedCrypto, true
	case certificatesv1.UsageNetscapeSGC:
		return x509.ExtKeyUsageNetscapeServerGatedCrypto, true
	}
	return 0, false
}
