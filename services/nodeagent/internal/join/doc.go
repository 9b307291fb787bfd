// Package join obtains a node agent's identity. It requests a client certificate with a bootstrap
// token, stores it in a file and replaces it before it expires. It requests a new one by the token
// when the certificate is lost, has expired, or is rejected (kubernetes, pkg/kubelet/certificate).
// The log and Ready explain each obstacle in one sentence.
package join
