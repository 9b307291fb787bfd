// Package admissionregistration defines the kinds of admissionregistration.k8s.io: webhooks and policies that extend admission, and
// their bindings.
package admissionregistration
