// Package pki keeps the plane's keys in one folder: the certificate authority, the serving
// certificate, the administrator's client certificate, the key that signs service account
// tokens, and the bearer tokens of the services. What is missing is made; what is there is
// used and never replaced, but for the serving certificate, which is made anew when it ends
// soon or lacks a name.
package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Names of the files.
const (
	CAFile             = "ca.crt"
	caKeyFile          = "ca.key"
	servingFile        = "apiserver.crt"
	servingKeyFile     = "apiserver.key"
	adminFile          = "admin.crt"
	adminKeyFile       = "admin.key"
	serviceAccountFile = "sa.key"
	// TokenFile holds the bearer tokens of the services.
	TokenFile = "tokens.csv"
)

const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is made anew.
	renewBefore = 30 * 24 * time.Hour
	// backdate is how far before now a certificate begins, for clocks that are behind.
	backdate = time.Hour

	adminUser  = "kubernetes-admin"
	adminGroup = "system:masters"
)

// Keys are what an apiserver needs of the folder.
type Keys struct {
	// CA is the certificate of the authority, which signs serving and client certificates.
	CA *x509.Certificate
	// Serving is the server's certificate and key.
	Serving tls.Certificate
	// ServiceAccounts signs service account tokens.
	ServiceAccounts *ecdsa.PrivateKey
	// TokenFile is the path of the services' tokens.
	TokenFile string
}

// Open reads the folder, making what is missing. hosts are the names and addresses that the
// serving certificate must have. A file that cannot be read is an error that says what to do.
func Open(dir string, hosts []string) (*Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of certificates: %w", err)
	}
	ca, err := openAuthority(dir)
	if err != nil {
		return nil, err
	}
	serving, err := ca.leaf(dir, servingFile, servingKeyFile, x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, hosts)
	if err != nil {
		return nil, err
	}
	_, err = ca.leaf(dir, adminFile, adminKeyFile, x509.Certificate{
		Subject:     pkix.Name{CommonName: adminUser, Organization: []string{adminGroup}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, nil)
	if err != nil {
		return nil, err
	}
	signing, err := openKey(filepath.Join(dir, serviceAccountFile), "all service account tokens end, pods get new ones")
	if err != nil {
		return nil, err
	}
	if err := ensureTokens(filepath.Join(dir, TokenFile)); err != nil {
		return nil, err
	}
	return &Keys{CA: ca.cert, Serving: serving, ServiceAccounts: signing, TokenFile: filepath.Join(dir, TokenFile)}, nil
}

// ServingFiles are the PEM files of the serving certificate and its key.
func ServingFiles(dir string) (cert, key string) {
	return filepath.Join(dir, servingFile), filepath.Join(dir, servingKeyFile)
}

// Admin gives the administrator's client certificate and key, and the authority's
// certificate, as PEM.
func Admin(dir string) (cert, key, ca []byte, err error) {
	var parts [3][]byte
	for i, name := range []string{adminFile, adminKeyFile, CAFile} {
		if parts[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, nil, nil, fmt.Errorf("reading the administrator's credentials, which the apiserver makes at its first start: %w", err)
		}
	}
	return parts[0], parts[1], parts[2], nil
}

// authority signs certificates.
type authority struct {
	cert *x509.Certificate
	pem  []byte
	key  *ecdsa.PrivateKey
}

func openAuthority(dir string) (*authority, error) {
	certPath, keyPath := filepath.Join(dir, CAFile), filepath.Join(dir, caKeyFile)
	const consequence = "every kubeconfig must then be made anew"
	certPEM, err := os.ReadFile(certPath)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(keyPath); err == nil {
			return nil, fmt.Errorf("%s is missing beside %s; restore it from a backup, or remove the whole folder to get new certificates (%s)", certPath, keyPath, consequence)
		}
		return newAuthority(certPath, keyPath)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	cert, err := parseCertificate(certPEM)
	if err != nil {
		return nil, damaged(certPath, err, consequence)
	}
	if _, err := os.Stat(keyPath); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing beside %s; restore it from a backup, or remove the whole folder to get new certificates (%s)", keyPath, certPath, consequence)
	}
	key, err := readKey(keyPath, consequence)
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of %s; restore both from one backup, or remove the whole folder to get new certificates (%s)", keyPath, certPath, consequence)
	}
	if time.Now().After(cert.NotAfter) {
		return nil, fmt.Errorf("the certificate authority in %s ended on %s; remove the whole folder to get a new one (%s)", certPath, cert.NotAfter.Format(time.DateOnly), consequence)
	}
	return &authority{cert: cert, pem: certPEM, key: key}, nil
}

func newAuthority(certPath, keyPath string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("making the key of the certificate authority: %w", err)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "garboard-ca"},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLife),
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
	if err := writeFile(certPath, certPEM); err != nil {
		return nil, err
	}
	if err := writeKey(keyPath, key); err != nil {
		return nil, errors.Join(err, os.Remove(certPath))
	}
	return &authority{cert: cert, pem: certPEM, key: key}, nil
}

// leaf reads a certificate and its key, or makes them when they are missing, end soon, are of
// another authority or lack one of hosts.
func (a *authority) leaf(dir, certName, keyName string, template x509.Certificate, hosts []string) (tls.Certificate, error) {
	certPath, keyPath := filepath.Join(dir, certName), filepath.Join(dir, keyName)
	certPEM, err := os.ReadFile(certPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, fmt.Errorf("reading a certificate: %w", err)
	}
	keyPEM, keyErr := os.ReadFile(keyPath)
	if keyErr != nil && !errors.Is(keyErr, fs.ErrNotExist) {
		return tls.Certificate{}, fmt.Errorf("reading a key: %w", keyErr)
	}
	if err == nil && keyErr == nil {
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return tls.Certificate{}, fmt.Errorf("%s and %s are damaged (%w); remove both to have them made anew", certPath, keyPath, err)
		}
		if a.good(pair.Leaf, hosts) {
			return pair, nil
		}
		hosts = append(slices.Clone(hosts), names(pair.Leaf)...)
	}
	return a.issue(certPath, keyPath, template, hosts)
}

func (a *authority) issue(certPath, keyPath string, template x509.Certificate, hosts []string) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making the key of %s: %w", certPath, err)
	}
	if template.SerialNumber, err = newSerial(); err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template.NotBefore, template.NotAfter = now.Add(-backdate), now.Add(leafLife)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	slices.Sort(hosts)
	for _, host := range slices.Compact(hosts) {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, key.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making %s: %w", certPath, err)
	}
	if err := os.Remove(certPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, fmt.Errorf("replacing a certificate: %w", err)
	}
	// With the key written first, a start that ends between the two makes both anew.
	if err := writeKey(keyPath, key); err != nil {
		return tls.Certificate{}, err
	}
	certPEM := append(encodePEM("CERTIFICATE", der), a.pem...)
	if err := writeFile(certPath, certPEM); err != nil {
		return tls.Certificate{}, err
	}
	keyPEM, err := os.ReadFile(keyPath)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading a key: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("making %s: %w", certPath, err)
	}
	return pair, nil
}

// good says whether a certificate can go on being used.
func (a *authority) good(leaf *x509.Certificate, hosts []string) bool {
	if time.Now().Add(renewBefore).After(leaf.NotAfter) || !bytes.Equal(leaf.AuthorityKeyId, a.cert.SubjectKeyId) ||
		leaf.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	have := names(leaf)
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			host = ip.String()
		}
		if !slices.Contains(have, host) {
			return false
		}
	}
	return true
}

func names(cert *x509.Certificate) []string {
	all := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		all = append(all, ip.String())
	}
	return all
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
