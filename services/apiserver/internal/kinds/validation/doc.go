// Package validation validates objects: errors are listed by field, with Kubernetes' error
// messages, so that users who know those recognise them. Package pod validates pods and pod
// templates, packages certificates and rbac the kinds of those groups, and package apps workloads.
package validation
