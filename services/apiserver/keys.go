package apiserver

import (
	"log/slog"
	"net/netip"
	"path/filepath"

	"k8s.io/client-go/rest"

	"github.com/garboard/garboard/libs/bus/callout"
	libpki "github.com/garboard/garboard/libs/pki"
	"github.com/garboard/garboard/services/apiserver/internal/server/config"
	"github.com/garboard/garboard/services/apiserver/internal/server/pki"
)

// Kubeconfig returns a kubeconfig for the administrator (group system:masters), who authenticates
// with a client certificate to the server at serverURL. certDir is a started apiserver's
// Config.CertDir. The certificates are inside the file.
func Kubeconfig(certDir, serverURL string) ([]byte, error) {
	cert, key, ca, err := pki.Admin(certDir)
	if err != nil {
		return nil, err
	}
	return libpki.Kubeconfig{Server: serverURL, CA: ca, Cert: cert, Key: key}.Encode()
}

// ServiceConfig returns the configuration with which a service of the plane reaches the apiserver
// at serverURL: with its bearer token from certDir, a started apiserver's Config.CertDir. service
// is its user name, "system:kube-controller-manager", "system:kube-scheduler" or
// "system:node:NAME". A node agent without a token gets a new one.
func ServiceConfig(certDir, serverURL, service string) (*rest.Config, error) {
	token, err := pki.Token(certDir, service)
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host: serverURL, BearerToken: token,
		TLSClientConfig: rest.TLSClientConfig{CAFile: filepath.Join(certDir, pki.CAFile)},
	}, nil
}

// SigningFiles returns the PEM files of the authority of client certificates and of its key, with
// which the controllers sign certificates. certDir is a started apiserver's Config.CertDir.
func SigningFiles(certDir string) (cert, key string) { return pki.AuthorityFiles(certDir) }

// TokenKeyFile returns the PEM file of the key of service account tokens, with which the controllers sign
// those in Secrets. certDir is as in SigningFiles.
func TokenKeyFile(certDir string) string { return pki.ServiceAccountFile(certDir) }

// ServingFiles returns the PEM files of the serving certificate that an apiserver creates itself,
// and of its key. certDir is as in SigningFiles.
func ServingFiles(certDir string) (cert, key string) { return pki.ServingFiles(certDir) }

// BusAuth returns what a NATS server needs to admit only clients that the apiservers admit. certDir
// is the apiservers' Config.CertDir; missing keys are created. The directory's nats-auth.conf holds
// the same for a nats-server.
func BusAuth(certDir string) (*callout.Auth, error) {
	keys, err := pki.OpenBus(certDir)
	if err != nil {
		return nil, err
	}
	return keys.Auth(), nil
}

// BusTLS returns the certificate for a NATS server at a host, and the authority whose client
// certificates it accepts, the same as the API's. certDir is as in BusAuth.
func BusTLS(certDir, host string) (*callout.TLS, error) {
	hosts := []string{"localhost", "127.0.0.1", "::1"}
	if ip, err := netip.ParseAddr(host); err != nil || !ip.IsUnspecified() {
		hosts = append(hosts, host)
	} else if own, err := config.OwnAddresses(); err == nil {
		for _, address := range own {
			hosts = append(hosts, address.String())
		}
	}
	if _, err := pki.Open(certDir, hosts, slog.Default()); err != nil {
		return nil, err
	}
	cert, key := pki.ServingFiles(certDir)
	return &callout.TLS{CertFile: cert, KeyFile: key, ClientCAFile: filepath.Join(certDir, pki.CAFile)}, nil
}
