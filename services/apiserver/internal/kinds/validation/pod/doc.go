// Package pod validates pods and the templates from which workloads make them, in Kubernetes'
// words. It expects defaults to be filled.
package pod
