// Package defaults sets the fields that clients may omit to Kubernetes' defaults. Each function
// changes its argument in place and is idempotent.
package defaults
