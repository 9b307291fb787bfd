package client

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// LoadConfig reads from a kubeconfig file how to reach an apiserver. With an empty path it reads
// the files that kubectl would: those that KUBECONFIG names, or the one in the home directory.
func LoadConfig(path string) (*rest.Config, error) {
	config, _, err := load(path)
	return config, err
}

// LoadNamespace is LoadConfig with the namespace of the file's current context, or "default" if the
// context has none.
func LoadNamespace(path string) (*rest.Config, string, error) { return load(path) }

// noServer stands for an address that a kubeconfig does not have.
const noServer = "https://no-server.invalid"

// LoadServerless is LoadConfig for a file that need not name an apiserver, for a client that reaches it over
// NATS. The host is then empty.
func LoadServerless(path string) (*rest.Config, error) {
	config, _, err := loadWith(path, &clientcmd.ConfigOverrides{ClusterDefaults: clientcmdapi.Cluster{Server: noServer}})
	if err == nil && config.Host == noServer {
		config.Host = ""
	}
	return config, err
}

func load(path string) (*rest.Config, string, error) {
	return loadWith(path, &clientcmd.ConfigOverrides{})
}

func loadWith(path string, overrides *clientcmd.ConfigOverrides) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		if clientcmd.IsEmptyConfig(err) || errors.Is(err, clientcmd.ErrEmptyConfig) {
			return nil, "", errors.New("no kubeconfig was found; name one with --kubeconfig or KUBECONFIG")
		}
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, "", fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return config, namespace, nil
}

// As returns config with program as its user agent, which should be Kubernetes' name for the same
// component. The apiserver records it as the manager of the fields that the program writes. As
// keeps a user agent that config already has.
func As(config *rest.Config, program string) *rest.Config {
	if config.UserAgent != "" {
		return config
	}
	named := rest.CopyConfig(config)
	_, version, _ := strings.Cut(rest.DefaultKubernetesUserAgent(), "/")
	named.UserAgent = program + "/" + version
	return named
}
