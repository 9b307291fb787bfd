package webhook

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Credentials are the users of a kubeconfig file. A webhook gets the one whose name is its host. Nil
// Credentials have none.
type Credentials struct{ config *clientcmdapi.Config }

// ReadCredentials reads a kubeconfig file. Commands that make credentials, and providers of them, are not
// supported.
func ReadCredentials(file string) (*Credentials, error) {
	config, err := readKubeconfig(file)
	if err != nil {
		return nil, fmt.Errorf("reading the credentials of webhooks: %w", err)
	}
	return &Credentials{config}, nil
}

// of returns the user for HOST:PORT; nil for none. The order is Kubernetes': the host with its port, a
// wildcard for its domain, both without port 443, the user *, the user of the current context.
func (c *Credentials) of(target string) *clientcmdapi.AuthInfo {
	if c == nil {
		return nil
	}
	if user := c.named(target); user != nil {
		return user
	}
	if host, port, err := net.SplitHostPort(target); err == nil && port == "443" {
		if user := c.named(host); user != nil {
			return user
		}
	}
	if user := c.config.AuthInfos["*"]; user != nil {
		return user
	}
	if current := c.config.Contexts[c.config.CurrentContext]; current != nil {
		return c.config.AuthInfos[current.AuthInfo]
	}
	return nil
}

func (c *Credentials) named(target string) *clientcmdapi.AuthInfo {
	if user := c.config.AuthInfos[target]; user != nil {
		return user
	}
	for rest := target; ; {
		_, after, found := strings.Cut(rest, ".")
		if !found {
			return nil
		}
		if user := c.config.AuthInfos["*."+after]; user != nil {
			return user
		}
		rest = after
	}
}

// present lets a transport present the credentials for HOST:PORT. It reads files of tokens and
// certificates; it reads a token's again when that changes.
func (c *Credentials) present(target string, secured *tls.Config, next http.RoundTripper) (http.RoundTripper, error) {
	user := c.of(target)
	if user == nil {
		return next, nil
	}
	config := &rest.Config{
		BearerToken: user.Token, BearerTokenFile: user.TokenFile, Username: user.Username, Password: user.Password,
		Impersonate: rest.ImpersonationConfig{
			UserName: user.Impersonate, UID: user.ImpersonateUID, Groups: user.ImpersonateGroups, Extra: user.ImpersonateUserExtra,
		},
	}
	if user.Impersonate == "" {
		config.Impersonate = rest.ImpersonationConfig{}
	}
	if user.Token == "" && user.TokenFile != "" {
		token, err := os.ReadFile(user.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("reading the token of a webhook: %w", err)
		}
		config.BearerToken = string(token)
	}
	if user.ClientCertificate != "" || len(user.ClientCertificateData) > 0 {
		config.TLSClientConfig = rest.TLSClientConfig{
			CertFile: user.ClientCertificate, CertData: user.ClientCertificateData, KeyFile: user.ClientKey, KeyData: user.ClientKeyData,
		}
		own, err := rest.TLSConfigFor(config)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate of a webhook: %w", err)
		}
		if own == nil {
			return nil, errors.New("reading the client certificate of a webhook: there is none")
		}
		secured.Certificates, secured.GetClientCertificate = own.Certificates, own.GetClientCertificate
	}
	return rest.HTTPWrappersForConfig(config, next) //nolint:wrapcheck // The caller names the webhook.
}

// hostPort returns HOST:PORT of an address.
func hostPort(address string) string {
	host := strings.TrimPrefix(strings.TrimPrefix(address, "https://"), "http://")
	if _, _, err := net.SplitHostPort(host); err != nil {
		return net.JoinHostPort(strings.Trim(host, "[]"), "443")
	}
	return host
}
