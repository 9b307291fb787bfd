// Package network checks the kinds that say how pods are reached: services with their addresses,
// endpoints, ingresses and network policies. Field paths, types of error and texts are those of
// Kubernetes (pkg/apis/core/validation, pkg/apis/networking/validation,
// pkg/apis/discovery/validation).
//
// Addresses and ranges are parsed strictly, as Kubernetes does since StrictIPCIDRValidation is on
// by default; what an object already has may stay as it is.
package network
