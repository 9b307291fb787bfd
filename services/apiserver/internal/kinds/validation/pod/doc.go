// Package pod validates pods and the templates from which workloads create them, with Kubernetes'
// error messages. It expects defaults to be filled in.
package pod
