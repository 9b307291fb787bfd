package client

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// LoadConfig reads how to reach an apiserver from a kubeconfig file. With an empty path it
// takes what kubectl would: the files that KUBECONFIG names, or the one in the home folder.
func LoadConfig(path string) (*rest.Config, error) {
	config, _, err := load(path)
	return config, err
}

// LoadNamespace is LoadConfig with the namespace of the file's current context, "default" if
// it sets none.
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

// As gives config with the name of a program, which is Kubernetes' for the same part of a cluster:
// by it the apiserver records who owns the fields that the program writes. A name that config has
// stays.
func As(config *rest.Config, program string) *rest.Config {
	if config.UserAgent != "" {
		return config
	}
	named := rest.CopyConfig(config)
	_, version, _ := strings.Cut(rest.DefaultKubernetesUserAgent(), "/")
	named.UserAgent = program + "/" + version
	return named
}
