// Package nodeapi defines the requests of an apiserver to a node agent: the only contract between the two
// services. They are HTTP over the bus (bushttp, with the name of the node), since a node has no open port.
// Paths, queries and responses are those of Kubernetes' kubelet.
package nodeapi
