package client

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
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

func load(path string) (*rest.Config, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = path
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
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
