// Package network validates the kinds that make pods reachable: services with their addresses,
// endpoints, ingresses and network policies. Field paths, error types and messages are Kubernetes'
// (pkg/apis/core/validation, pkg/apis/networking/validation, pkg/apis/discovery/validation).
//
// Addresses and ranges are parsed strictly, as Kubernetes does since StrictIPCIDRValidation is on
// by default. Values that an object already has may stay.
package network
