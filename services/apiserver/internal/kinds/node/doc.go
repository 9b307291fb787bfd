// Package node defines the kind of node.k8s.io, the RuntimeClass.
package node
