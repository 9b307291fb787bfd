// Package discovery defines the kind of discovery.k8s.io, the EndpointSlice.
package discovery
