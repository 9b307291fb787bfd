package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/garboard/garboard/libs/pki"
)

// proxyClient is what errors and the log call the certificate with which the apiserver calls other
// API servers.
const proxyClient = "the front proxy's client certificate"

// openFrontProxy creates the missing files of the front proxy. They have an authority of their own: a
// client with a certificate of it may act in the name of every user.
func openFrontProxy(files pki.Files, dir string) error {
	in := func(name string) string { return filepath.Join(dir, name) }
	authority, _, err := pki.OpenAuthority(files, in(pki.FrontProxyCAFile), in(pki.FrontProxyCAKeyFile), pki.FrontProxyAuthority)
	if err != nil {
		return fmt.Errorf("opening the authority of front proxies, for a new one of which it is enough to remove front-proxy-*: %w", err)
	}
	leaf := pki.Leaf{Name: pki.FrontProxyUser, Use: pki.Client}
	_, _, err = authority.Open(files, in(pki.FrontProxyClientFile), in(pki.FrontProxyClientKeyFile), leaf)
	return err
}

// readFrontProxy reads what the directory has of the front proxy, which is nothing in one that an
// earlier version has filled.
func (k *Keys) readFrontProxy(dir string, log *slog.Logger) error {
	path := filepath.Join(dir, pki.FrontProxyCAFile)
	ca, _, err := pki.ReadAuthority(path)
	switch {
	case err == nil:
		k.FrontProxyCA, k.FrontProxyCAFile = []*x509.Certificate{ca}, path
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("opening the authority of front proxies: %w", err)
	}
	cert, key := filepath.Join(dir, pki.FrontProxyClientFile), filepath.Join(dir, pki.FrontProxyClientKeyFile)
	err = k.UseProxyClient(cert, key, log)
	if errors.Is(err, fs.ErrNotExist) {
		k.ProxyClient = func() (*tls.Certificate, error) { return nil, nil }
		return nil
	}
	return err
}

// UseProxyClient makes ProxyClient return the certificate in certFile with the key in keyFile. They
// are read again when they change.
func (k *Keys) UseProxyClient(certFile, keyFile string, log *slog.Logger) error {
	pair, err := pki.NewPair(proxyClient, certFile, keyFile, log)
	if err != nil {
		return err
	}
	k.ProxyClient = func() (*tls.Certificate, error) { return pair.Certificate(nil) }
	return nil
}

// CheckProxyClient returns an error if the servers that trust the authorities would not accept the
// certificate of ProxyClient, or if there is no certificate or no authority.
func (k *Keys) CheckProxyClient(authorities []*x509.Certificate) error {
	pair, err := k.ProxyClient()
	switch {
	case err != nil:
		return err
	case pair == nil:
		return errors.New("there is no client certificate of the front proxy")
	case len(authorities) == 0:
		return errors.New("there is no authority of front proxies")
	}
	roots, others := x509.NewCertPool(), x509.NewCertPool()
	for _, authority := range authorities {
		roots.AddCert(authority)
	}
	for _, der := range pair.Certificate[1:] {
		if cert, err := x509.ParseCertificate(der); err == nil {
			others.AddCert(cert)
		}
	}
	_, err = pair.Leaf.Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: others, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	if err != nil {
		return fmt.Errorf("the authority of front proxies has not signed %s: %w", proxyClient, err)
	}
	return nil
}

// ProxyClientFile returns the PEM file of the certificate of ProxyClient in a certificate directory.
func ProxyClientFile(dir string) string { return filepath.Join(dir, pki.FrontProxyClientFile) }
