package webhook

import (
	"crypto/tls"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// FromKubeconfig returns the client of the server that the current context of a kubeconfig file names,
// with that context's credentials. It reads all files now; it reads a token's again when that changes.
// Commands that make credentials, and providers of them, are not supported. Of cfg it uses neither
// Resolver nor Credentials, and Proxy only if the file names no proxy.
func FromKubeconfig(file string, cfg Config) (*Client, error) {
	cfg = cfg.defaulted()
	found, err := readKubeconfig(file)
	if err != nil {
		return nil, fmt.Errorf("reading the address of a webhook: %w", err)
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(*found, found.CurrentContext, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("reading the address of a webhook: %s: %w", file, err)
	}
	config.QPS, config.WarningHandler = -1, rest.NoWarnings{}
	config.NegotiatedSerializer, config.ContentType = cfg.coder(), runtime.ContentTypeJSON
	secured, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of a webhook: %s: %w", file, err)
	}
	if secured == nil {
		secured = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	secured.NextProtos = []string{"http/1.1"}
	transport := newTransport(secured, cfg.Dial)
	if transport.Proxy = cfg.Proxy; config.Proxy != nil {
		transport.Proxy = config.Proxy
	}
	round, err := rest.HTTPWrappersForConfig(config, http.RoundTripper(bounded{transport, cfg.MaxAnswer}))
	if err != nil {
		return nil, fmt.Errorf("reading the credentials of a webhook: %s: %w", file, err)
	}
	return cfg.connect(config, transport, round)
}

// Close closes the client's connections. No call may be under way.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// readKubeconfig reads a kubeconfig file, all of whose users must have credentials that are supported.
func readKubeconfig(file string) (*clientcmdapi.Config, error) {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, err //nolint:wrapcheck // The caller says what is read.
	}
	if err := clientcmd.ResolveLocalPaths(config); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for name, user := range config.AuthInfos {
		switch {
		case user.Exec != nil:
			return nil, fmt.Errorf("%s: the user %q has exec, which is not supported", file, name)
		case user.AuthProvider != nil:
			return nil, fmt.Errorf("%s: the user %q: auth provider not supported", file, name)
		}
	}
	return config, nil
}
