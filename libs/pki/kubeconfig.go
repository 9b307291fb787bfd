package pki

import (
	"crypto/tls"
	"fmt"

	"sigs.k8s.io/yaml"

	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// clusterName is the name of the cluster, user and context in a kubeconfig.
const clusterName = "garboard"

// Kubeconfig is a self-contained kubeconfig with one cluster, whose user presents a certificate or
// a bearer token.
type Kubeconfig struct {
	// Server is the URL of the API.
	Server string
	// CA is the CA certificate that verifies the server, in PEM.
	CA []byte
	// Cert and Key are the user's certificate and key, in PEM; empty if the user has a token.
	Cert, Key []byte
	// Token is the user's bearer token; empty if the user has a certificate.
	Token string
}

// Encode returns the content of the file.
func (k Kubeconfig) Encode() ([]byte, error) {
	data, err := yaml.Marshal(clientcmdv1.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: clusterName,
		Clusters: []clientcmdv1.NamedCluster{{
			Name: clusterName, Cluster: clientcmdv1.Cluster{Server: k.Server, CertificateAuthorityData: k.CA},
		}},
		AuthInfos: []clientcmdv1.NamedAuthInfo{{
			Name: clusterName, AuthInfo: clientcmdv1.AuthInfo{ClientCertificateData: k.Cert, ClientKeyData: k.Key, Token: k.Token},
		}},
		Contexts: []clientcmdv1.NamedContext{{
			Name: clusterName, Context: clientcmdv1.Context{Cluster: clusterName, AuthInfo: clusterName},
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the kubeconfig: %w", err)
	}
	return data, nil
}

// ParseKubeconfig parses what Encode returned.
func ParseKubeconfig(data []byte) (Kubeconfig, error) {
	var file clientcmdv1.Config
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return Kubeconfig{}, fmt.Errorf("reading a kubeconfig: %w", err)
	}
	if len(file.Clusters) != 1 || len(file.AuthInfos) != 1 {
		return Kubeconfig{}, fmt.Errorf("reading a kubeconfig: it has %d clusters and %d users, not one of each", len(file.Clusters), len(file.AuthInfos))
	}
	cluster, user := file.Clusters[0].Cluster, file.AuthInfos[0].AuthInfo
	return Kubeconfig{
		Server: cluster.Server, CA: cluster.CertificateAuthorityData,
		Cert: user.ClientCertificateData, Key: user.ClientKeyData, Token: user.Token,
	}, nil
}

// Pair returns the user's certificate with its key.
func (k Kubeconfig) Pair() (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(k.Cert, k.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("reading a kubeconfig's certificate: %w", err)
	}
	return pair, nil
}
