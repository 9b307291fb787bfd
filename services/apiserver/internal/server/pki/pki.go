// Package pki keeps the plane's keys in one directory: the certificate authority, the serving
// certificate, the administrator's client certificate, the key that signs service account tokens,
// the bearer tokens of the services, and the identity with which the apiserver calls other API
// servers. Missing files are created. Existing ones are used and
// never replaced, except the serving certificate, which is renewed when it expires soon or lacks a
// name.
//
// If the serving certificate comes from elsewhere, the directory is only read, and the authority's
// key may be kept elsewhere too.
package pki

import (
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/garboard/garboard/libs/bus/callout"
	"github.com/garboard/garboard/libs/pki"
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
	// BusConfigFile tells nats-servers which clients are apiservers.
	BusConfigFile = pki.BusConfigFile
)

const (
	authorityName = "garboard-ca"
	servingUser   = "kube-apiserver"
	adminUser     = "kubernetes-admin"
	adminGroup    = "system:masters"
	// tokensEnd is the consequence of a new service account key, for error messages.
	tokensEnd = "all service account tokens end, pods get new ones"
)

// Keys are the contents of the directory that an apiserver needs.
type Keys struct {
	// CA is the certificate of the authority, which signs serving and client certificates.
	CA *x509.Certificate
	// Serving is the server's certificate and key as first read.
	Serving tls.Certificate
	// Certificate returns the present certificate and key; it is tls.Config.GetCertificate.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	// ServiceAccounts signs service account tokens.
	ServiceAccounts *ecdsa.PrivateKey
	// TokenFile is the path of the services' tokens; empty if there are none.
	TokenFile string
	// FrontProxyCA is the authority of front proxies as first read; empty if there is none. A client
	// with a certificate of it may name the user of a request in headers.
	FrontProxyCA []*x509.Certificate
	// FrontProxyCAFile is the path of that authority; empty if there is none.
	FrontProxyCAFile string
	// ProxyClient returns the present certificate with which the apiserver calls other API servers
	// in the name of users; nil without an error if there is none.
	ProxyClient func() (*tls.Certificate, error)
}

// Open reads the directory and creates the files that are missing. hosts are the names and
// addresses that the serving certificate must have. log receives what happens to files that are
// read again. The error for a file that cannot be read says what to do.
func Open(dir string, hosts []string, log *slog.Logger) (*Keys, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the certificate directory: %w; with --tls-cert-file and --tls-private-key-file it may be read-only", err)
	}
	var files pki.Files
	in := func(name string) string { return filepath.Join(dir, name) }
	ca, _, err := pki.OpenAuthority(files, in(CAFile), in(caKeyFile), authorityName)
	if err != nil {
		return nil, err
	}
	serving, _, err := ca.Open(files, in(servingFile), in(servingKeyFile), pki.Leaf{Name: servingUser, Hosts: hosts, Use: pki.Server})
	if err != nil {
		return nil, err
	}
	admin := pki.Leaf{Name: adminUser, Groups: []string{adminGroup}, Use: pki.Client}
	if _, _, err = ca.Open(files, in(adminFile), in(adminKeyFile), admin); err != nil {
		return nil, err
	}
	signing, _, err := pki.OpenKey(files, in(serviceAccountFile), tokensEnd)
	if err != nil {
		return nil, err
	}
	if err := ensureTokens(in(TokenFile)); err != nil {
		return nil, err
	}
	keys := &Keys{
		CA: ca.Certificate(), Serving: serving,
		Certificate:     func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &serving, nil },
		ServiceAccounts: signing, TokenFile: in(TokenFile),
	}
	if err := openFrontProxy(files, dir); err != nil {
		return nil, err
	}
	return keys, keys.readFrontProxy(dir, log)
}

// Read reads a directory that another program, such as `garboard init`, has filled, and writes
// nothing. It reads the authority's certificate, the key of service account tokens and, if they
// exist, the token file and the files of the front proxy. The serving certificate comes from two files of its own, and is reloaded
// when they change.
func Read(dir, certFile, keyFile string, log *slog.Logger) (*Keys, error) {
	pair, err := pki.NewPair("the serving certificate", certFile, keyFile, log)
	if err != nil {
		return nil, fmt.Errorf("%w (--tls-cert-file and --tls-private-key-file)", err)
	}
	caPath, keyPath, tokens := filepath.Join(dir, CAFile), filepath.Join(dir, serviceAccountFile), filepath.Join(dir, TokenFile)
	ca, _, err := pki.ReadAuthority(caPath)
	if err != nil {
		return nil, filled(err, dir)
	}
	signing, err := pki.ReadKey(keyPath, tokensEnd)
	if err != nil {
		return nil, filled(err, dir)
	}
	if _, err := os.Stat(tokens); errors.Is(err, fs.ErrNotExist) {
		tokens = ""
	} else if err != nil {
		return nil, fmt.Errorf("reading the services' tokens: %w", err)
	}
	serving, err := pair.Certificate(nil)
	if err != nil {
		return nil, err
	}
	keys := &Keys{CA: ca, Serving: *serving, Certificate: pair.Certificate, ServiceAccounts: signing, TokenFile: tokens}
	return keys, keys.readFrontProxy(dir, log)
}

// filled adds to the error for a missing file which program creates it, since this process doesn't.
func filled(err error, dir string) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("%w; with --tls-cert-file the apiserver creates nothing in --cert-dir: have `garboard init` fill %s", err, dir)
}

// OpenBus reads the apiservers' keys for NATS from the directory, creates those that are missing,
// and writes the configuration that nats-servers must include.
func OpenBus(dir string) (*callout.Keys, error) { return pki.OpenBus(pki.Files{}, dir) }

// ReadBus is OpenBus for a directory that another program has filled. It writes nothing.
func ReadBus(dir string) (*callout.Keys, error) {
	keys, err := pki.ReadBus(dir)
	if err != nil {
		return nil, filled(err, dir)
	}
	return keys, nil
}

// ServingFiles returns the PEM files of the serving certificate and its key.
func ServingFiles(dir string) (cert, key string) {
	return filepath.Join(dir, servingFile), filepath.Join(dir, servingKeyFile)
}

// AuthorityFiles returns the PEM files of the authority's certificate and its key.
func AuthorityFiles(dir string) (cert, key string) {
	return filepath.Join(dir, CAFile), filepath.Join(dir, caKeyFile)
}

// ServiceAccountFile returns the PEM file of the key that signs service account tokens.
func ServiceAccountFile(dir string) string { return filepath.Join(dir, serviceAccountFile) }

// Admin returns the administrator's client certificate and key, and the authority's certificate, as
// PEM.
func Admin(dir string) (cert, key, ca []byte, err error) {
	var parts [3][]byte
	for i, name := range []string{adminFile, adminKeyFile, CAFile} {
		if parts[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, nil, nil, fmt.Errorf("reading the administrator's credentials, which the apiserver creates when it first starts unless --tls-cert-file is set: %w", err)
		}
	}
	return parts[0], parts[1], parts[2], nil
}
