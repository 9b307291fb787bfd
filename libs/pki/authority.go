// Package pki makes and keeps what the programs of a plane know each other by: certificate
// authorities, certificates that they sign, keys, kubeconfigs, and the apiservers' keys for NATS.
// What is there and good is used; what is missing is made; certificates are made anew when they
// end soon or lack a name. A file is replaced at once or not at all.
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
	// AuthorityLife and LeafLife are for how long new certificates are valid.
	AuthorityLife = 10 * 365 * 24 * time.Hour
	LeafLife      = 365 * 24 * time.Hour
	// RenewBefore is how long before its end a certificate is made anew.
	RenewBefore = 30 * 24 * time.Hour
	// backdate is how far before now a certificate begins, for clocks that are behind.
	backdate = time.Hour
)

// Outcome is what became of a file.
type Outcome int

// Outcomes of opening a file.
const (
	// Kept is a file that was there and good.
	Kept Outcome = iota
	// Made is one that was missing.
	Made
	// Renewed is one that ended soon, or did not say what it has to.
	Renewed
)

// String is the outcome in one word.
func (o Outcome) String() string { return [...]string{"kept", "made", "renewed"}[o] }

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	pem  []byte
	key  crypto.Signer
}

// Certificate is the authority's own.
func (a *Authority) Certificate() *x509.Certificate { return a.cert }

// PEM is the authority's certificate as a file has it.
func (a *Authority) PEM() []byte { return a.pem }

// lost is what it means to begin with a new authority.
const lost = "every kubeconfig must then be made anew"

// OpenAuthority reads an authority's certificate and its key, or makes both when neither is
// there; it is then called name. An authority that is there is never replaced: one that is
// damaged, has ended, or has lost a half is an error that says what to do.
func OpenAuthority(files Files, certPath, keyPath, name string) (*Authority, Outcome, error) {
	cert, certPEM, err := ReadAuthority(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(keyPath); err == nil {
			return nil, Kept, fmt.Errorf("%s is missing beside %s; restore it from a backup, or remove the whole folder to get new certificates (%s)", certPath, keyPath, lost)
		}
		made, err := newAuthority(files, certPath, keyPath, name)
		return made, Made, err
	}
	if err != nil {
		return nil, Kept, err
	}
	if _, err := os.Stat(keyPath); errors.Is(err, fs.ErrNotExist) {
		return nil, Kept, fmt.Errorf("%s is missing beside %s; restore it from a backup, or remove the whole folder to get new certificates (%s)", keyPath, certPath, lost)
	}
	key, err := readSigner(keyPath, lost)
	if err != nil {
		return nil, Kept, err
	}
	if public, ok := key.Public().(interface {
		Equal(other crypto.PublicKey) bool
	}); !ok || !public.Equal(cert.PublicKey) {
		return nil, Kept, fmt.Errorf("%s is not the key of %s; restore both from one backup, or remove the whole folder to get new certificates (%s)", keyPath, certPath, lost)
	}
	if time.Now().After(cert.NotAfter) {
		return nil, Kept, fmt.Errorf("the certificate authority in %s ended on %s; remove the whole folder to get a new one (%s)", certPath, cert.NotAfter.Format(time.DateOnly), lost)
	}
	return &Authority{cert: cert, pem: certPEM, key: key}, Kept, nil
}

// ReadAuthority reads an authority's certificate alone, which is all that is needed to know those
// that it signed. The error is fs.ErrNotExist if there is none.
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
		return nil, nil, damaged(path, errors.New("it is no authority's certificate"), lost)
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
		return nil, fmt.Errorf("making the certificate authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("making the certificate authority: %w", err)
	}
	// The certificate comes first: a start that ends between the two then says plainly what is
	// missing.
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
		return nil, fmt.Errorf("making a serial number: %w", err)
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
