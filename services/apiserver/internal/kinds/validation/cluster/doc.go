// Package cluster validates the kinds by which an apiserver is configured, in Kubernetes' words.
// It expects defaults to be filled.
package cluster
