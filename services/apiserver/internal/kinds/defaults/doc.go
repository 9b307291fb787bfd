// Package defaults fills what clients may leave out of an object with Kubernetes' defaults.
// Each function changes its argument in place and, applied twice, equals being applied once.
package defaults
