// Package apiregistration defines the kind of apiregistration.k8s.io, the APIService.
package apiregistration
