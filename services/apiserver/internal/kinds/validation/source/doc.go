// Package source validates the volume sources that pods and persistent volumes share, with
// Kubernetes' error messages.
package source
