// Package cluster validates the kinds that configure an apiserver, with Kubernetes' error messages.
// It expects defaults to be filled in.
package cluster
