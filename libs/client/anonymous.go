package client

import (
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// WithoutCredentials returns the kubeconfig at path reduced to its current context, without any
// credential. Files that its cluster names are embedded. The result says where the apiserver is
// and by what authority it is known, and grants nothing.
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
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, fmt.Errorf("embedding the files of the kubeconfig %s: %w", path, err)
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig %s without credentials: %w", path, err)
	}
	return data, nil
}
