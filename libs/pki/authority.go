// Package pki creates and stores the credentials by which the programs of a control plane know each
// other. These are certificate authorities, certificates that they sign, keys, kubeconfigs, and the
// apiservers' keys for NATS. It uses existing valid files, creates missing ones, and reissues
// certificates that expire soon or lack a name. It replaces a file atomically.
package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"time"
)

const (
	// AuthorityLife and LeafLife are the validity periods of new certificates.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	LeafLife      = 365 * 24 * time.Hour
	// RenewBefore is how long before its expiry a certificate is reissued.
	RenewBefore = 30 * 24 * time.Hour
	// backdate is how long before now a certificate becomes valid, for clocks that are behind.
	backdate = time.Hour
)

// Outcome is what happened to a file.
type Outcome int

// Outcomes of opening a file.
const (
	// Kept is a file that existed and was valid.
	Kept Outcome = iota
	// Made is a file that was missing.
	Made
	// Renewed is a file that was about to expire, or whose content was not as required.
	Renewed
)

// String returns the outcome in one word.
func (o Outcome) String() string { return [...]string{"kept", "made", "renewed"}[o] }

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer
}

// Certificate returns the authority's own certificate.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// PEM returns the authority's certificate in PEM.
func (a *Authority) PEM() []byte { return a.pem }

// lost is the consequence of starting over with a new authority.
const lost = "every kubeconfig must then be issued again"

// OpenAuthority reads an authority's certificate and key, or creates both, with the common name
// name, if neither exists. It never replaces an existing authority: if one is damaged, has expired,
// or lacks one of the two files, it returns an error with the remedy.
func OpenAuthority(files Files, certPath, keyPath, name string) (*Authority, Outcome, error) {
	cert, certPEM, err := ReadAuthority(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(keyPath); err == nil {
			return nil, Kept, fmt.Errorf("%s is missing beside %s; restore it from a backup, or remove the whole directory to get new certificates (%s)", certPath, keyPath, lost)
		}
		made, err := newAuthority(files, certPath, keyPath, name)
		return made, Made, err
	}
	if err != nil {
		return nil, Kept, err
	}
	if _, err := os.Stat(keyPath); errors.Is(err, fs.ErrNotExist) {
		return nil, Kept, fmt.Errorf("%s is missing beside %s; restore it from a backup, or remove the whole directory to get new certificates (%s)", keyPath, certPath, lost)
	}
	key, err := readSigner(keyPath, lost)
	if err != nil {
		return nil, Kept, err
	}
	if public, ok := key.Public().(interface {
		Equal(other crypto.PublicKey) bool
	}); !ok || !public.Equal(cert.PublicKey) {
		return nil, Kept, fmt.Errorf("%s is not the key of %s; restore both from one backup, or remove the whole directory to get new certificates (%s)", keyPath, certPath, lost)
	}
	if time.Now().After(cert.NotAfter) {
		return nil, Kept, fmt.Errorf("the certificate authority in %s expired on %s; remove the whole directory to get a new one (%s)", certPath, cert.NotAfter.Format(time.DateOnly), lost)
	}
	return &Authority{cert: cert, pem: certPEM, key: key}, Kept, nil
}

// ReadAuthority reads only an authority's certificate, which is enough to verify certificates that
// it signed. The error is fs.ErrNotExist if there is none.
func ReadAuthority(path string) (*x509.Certificate, []byte, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	cert, err := parseCertificate(data)
	if err != nil {
		return nil, nil, damaged(path, err, lost)
	}
	if !cert.IsCA {
		return nil, nil, damaged(path, errors.New("it is not a CA certificate"), lost)
	}
	return cert, data, nil
}

func newAuthority(files Files, certPath, keyPath, name string) (*Authority, error) {
	key, err := newKey(keyPath)
	if err != nil {
		return nil, err
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(AuthorityLife),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("creating the certificate authority: %w", err)
	}
	// Write the certificate first: if the process ends between the two writes, the next start then
	// names the missing file clearly.
	certPEM := encodePEM("CERTIFICATE", der)
	if err := files.Write(certPath, certPEM, Public); err != nil {
		return nil, err
	}
	if err := writeKey(files, keyPath, key); err != nil {
		return nil, errors.Join(err, os.Remove(certPath))
	}
	return &Authority{cert: cert, pem: certPEM, key: key}, nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 126))
	if err != nil {
		return nil, fmt.Errorf("generating a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

func parseCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("it holds no PEM certificate")
	}
	return x509.ParseCertificate(block.Bytes)
}
