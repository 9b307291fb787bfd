// Package source validates the storage that pods and persistent volumes name themselves, in
// Kubernetes' words.
package source
