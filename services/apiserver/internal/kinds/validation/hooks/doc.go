// Package hooks validates admission webhooks and admission policies, in Kubernetes' words. It
// expects defaults to be filled. CEL expressions are not compiled: that they are there is all
// that is checked of them.
package hooks
