// Package validation says what is wrong with objects: by field, in Kubernetes' words, so that
// people who know those recognise them. Package pod validates pods and pod templates; packages
// certificates and rbac those kinds, package apps what keeps pods running.
package validation
