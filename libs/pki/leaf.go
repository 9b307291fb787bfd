package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"
)

// Use is the purpose of a certificate.
type Use int

// Uses of certificates.
const (
	// Server certificates are presented to clients.
	Server Use = 1 << iota
	// Client certificates are presented to servers.
	Client
	// Peer certificates are presented to both, between the members of a cluster.
	Peer = Server | Client
)

func (u Use) extended() (usages []x509.ExtKeyUsage) {
	if u&Server != 0 {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	if u&Client != 0 {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	return usages
}

// Leaf describes a certificate that an authority signs.
type Leaf struct {
	// Name is the certificate's common name, which is the user name at an apiserver. Groups are its
	// organizations, which are the user's groups.
	Name   string
	Groups []string
	// Hosts are the names and IP addresses at which clients reach a server.
	Hosts []string
	Use   Use
}

// Good reports whether cert still serves as leaf: it is signed by the authority, has every name,
// group and usage in leaf, and is valid for longer than RenewBefore.
func (a *Authority) Good(cert *x509.Certificate, leaf Leaf) bool {
	if time.Now().Add(RenewBefore).After(cert.NotAfter) || !bytes.Equal(cert.AuthorityKeyId, a.cert.SubjectKeyId) ||
		cert.CheckSignatureFrom(a.cert) != nil {
		return false
	}
	if cert.Subject.CommonName != leaf.Name || !slices.Equal(cert.Subject.Organization, leaf.Groups) {
		return false
	}
	for _, usage := range leaf.Use.extended() {
		if !slices.Contains(cert.ExtKeyUsage, usage) {
			return false
		}
	}
	have := names(cert)
	for _, host := range leaf.Hosts {
		if ip := net.ParseIP(host); ip != nil {
			host = ip.String()
		}
		if !slices.Contains(have, host) {
			return false
		}
	}
	return true
}

// Issue signs a certificate with a new key. The authority's own certificate follows it in certPEM.
func (a *Authority) Issue(leaf Leaf) (certPEM, keyPEM []byte, err error) {
	key, err := newKey(leaf.Name)
	if err != nil {
		return nil, nil, err
	}
	if certPEM, err = a.sign(leaf, key); err != nil {
		return nil, nil, err
	}
	keyPEM, err = encodeKey(leaf.Name, key)
	return certPEM, keyPEM, err
}

// Open reads a certificate and its key, or issues both if one is missing or the certificate is not
// good for leaf. A reissued certificate keeps the old one's additional names. A damaged file is an
// error.
func (a *Authority) Open(files Files, certPath, keyPath string, leaf Leaf) (tls.Certificate, Outcome, error) {
	outcome := Made
	certPEM, err := os.ReadFile(certPath)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, Kept, fmt.Errorf("reading a certificate: %w", err)
	}
	keyPEM, keyErr := os.ReadFile(keyPath)
	if keyErr != nil && !errors.Is(keyErr, fs.ErrNotExist) {
		return tls.Certificate{}, Kept, fmt.Errorf("reading a key: %w", keyErr)
	}
	if err == nil && keyErr == nil {
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return tls.Certificate{}, Kept, fmt.Errorf("%s and %s are damaged (%w); remove both to have them issued again", certPath, keyPath, err)
		}
		if a.Good(pair.Leaf, leaf) {
			return pair, Kept, nil
		}
		leaf.Hosts = append(slices.Clone(leaf.Hosts), names(pair.Leaf)...)
		outcome = Renewed
	}
	pair, err := a.replace(files, certPath, keyPath, leaf)
	return pair, outcome, err
}

func (a *Authority) replace(files Files, certPath, keyPath string, leaf Leaf) (tls.Certificate, error) {
	certPEM, keyPEM, err := a.Issue(leaf)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issuing %s: %w", certPath, err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("issuing %s: %w", certPath, err)
	}
	if err := os.Remove(certPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return tls.Certificate{}, fmt.Errorf("replacing a certificate: %w", err)
	}
	// Write the key first: if the process ends between the two writes, the next start issues both
	// again.
	if err := files.Write(keyPath, keyPEM, Secret); err != nil {
		return tls.Certificate{}, err
	}
	return pair, files.Write(certPath, certPEM, Public)
}

func (a *Authority) sign(leaf Leaf, key *ecdsa.PrivateKey) ([]byte, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: leaf.Name, Organization: leaf.Groups},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(LeafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: leaf.Use.extended(),
	}
	// A certificate that outlives its CA would claim to be valid when clients no longer accept it.
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	hosts := slices.Sorted(slices.Values(leaf.Hosts))
	for _, host := range slices.Compact(hosts) {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("signing a certificate of %s: %w", leaf.Name, err)
	}
	return append(encodePEM("CERTIFICATE", der), a.pem...), nil
}

func names(cert *x509.Certificate) []string {
	all := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		all = append(all, ip.String())
	}
	return all
}
