// Package certificates defines the kinds of certificates.k8s.io: requests for certificates, and trust bundles.
package certificates
