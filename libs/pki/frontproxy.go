package pki

// Names of the files by which an apiserver identifies itself as a front proxy to other API servers;
// kubeadm's.
const (
	FrontProxyCAFile        = "front-proxy-ca.crt"
	FrontProxyCAKeyFile     = "front-proxy-ca.key"
	FrontProxyClientFile    = "front-proxy-client.crt"
	FrontProxyClientKeyFile = "front-proxy-client.key"
)

const (
	// FrontProxyAuthority is the common name of the authority of front proxies.
	FrontProxyAuthority = "garboard-front-proxy-ca"
	// FrontProxyUser is the common name of a front proxy's client certificate; kubeadm's.
	FrontProxyUser = "front-proxy-client"
)
