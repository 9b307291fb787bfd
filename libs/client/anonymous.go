package client

import (
	"fmt"
	"net/url"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WithoutCredentials returns the kubeconfig at path reduced to its current context, without any
// credential. Files that its cluster names are embedded. The result says where the apiserver is
// and by what authority it is known, and grants nothing. A user name in a URL is an error.
func WithoutCredentials(path string) ([]byte, error) {
	config, err := clientcmd.LoadFromFile(path)
	if err == nil {
		err = clientcmdapi.MinifyConfig(config)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig %s: %w", path, err)
	}
	// Before files are embedded: those of credentials need not be readable.
	for name := range config.AuthInfos {
		config.AuthInfos[name] = clientcmdapi.NewAuthInfo()
	}
	for _, cluster := range config.Clusters {
		for _, address := range []string{cluster.Server, cluster.ProxyURL} {
			if parsed, err := url.Parse(address); err != nil || parsed.User != nil {
				return nil, fmt.Errorf("removing the credentials from the kubeconfig %s: the URL of its server or proxy contains a user name or cannot be parsed", path)
			}
		}
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, fmt.Errorf("embedding the files of the kubeconfig %s: %w", path, err)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig %s without credentials: %w", path, err)
	}
	return data, nil
}
