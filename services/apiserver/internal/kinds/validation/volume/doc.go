// Package volume validates persistent volumes and the objects of storage drivers, with Kubernetes'
// error messages. It expects defaults to be filled in.
package volume
