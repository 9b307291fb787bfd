// Package volume validates persistent volumes and what belongs to drivers of storage, in
// Kubernetes' words. It expects defaults to be filled.
package volume
