// Package hooks validates admission webhooks and admission policies, with Kubernetes' error
// messages. It expects defaults to be filled in. It does not compile CEL expressions: it checks
// only that they are present.
package hooks
