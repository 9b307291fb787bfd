// Package warnings warns about parts of pods and templates that are valid but hardly intended, with
// Kubernetes' messages.
package warnings
