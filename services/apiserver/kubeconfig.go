package apiserver

import (
	"fmt"
	"path/filepath"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"github.com/garboard/garboard/services/apiserver/internal/pki"
)

// clusterName names cluster, user and context in the administrator's kubeconfig.
const clusterName = "garboard"

// Kubeconfig gives a kubeconfig of the administrator (group system:masters), who is known by
// a client certificate, for the server at serverURL. certDir is a started apiserver's
// Config.CertDir. The certificates are inside the file.
func Kubeconfig(certDir, serverURL string) ([]byte, error) {
	cert, key, ca, err := pki.Admin(certDir)
	if err != nil {
		return nil, err
	}
	config := clientcmdv1.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: clusterName,
		Clusters: []clientcmdv1.NamedCluster{{
			Name: clusterName, Cluster: clientcmdv1.Cluster{Server: serverURL, CertificateAuthorityData: ca},
		}},
		AuthInfos: []clientcmdv1.NamedAuthInfo{{
			Name: clusterName, AuthInfo: clientcmdv1.AuthInfo{ClientCertificateData: cert, ClientKeyData: key},
		}},
		Contexts: []clientcmdv1.NamedContext{{
			Name: clusterName, Context: clientcmdv1.Context{Cluster: clusterName, AuthInfo: clusterName},
		}},
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return data, nil
}

// ServiceConfig says how a service of the plane reaches the apiserver at serverURL: by its
// bearer token from certDir, a started apiserver's Config.CertDir. service is its user name,
// "system:kube-controller-manager", "system:kube-scheduler" or "system:node:NAME"; a node
// agent without a token gets one.
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
