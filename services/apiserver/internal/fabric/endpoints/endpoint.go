// Package endpoints finds what serves a Service, by its EndpointSlices, and connects to it: directly where
// there is a route, else through the agent of the pod's node.
package endpoints

import (
	"context"

	corev1 "k8s.io/api/core/v1"
)

// Endpoint is one place where a port of a Service is served.
type Endpoint struct {
	// Address is HOST:PORT.
	Address string
	// Pod is the pod that has the address; nil if the endpoint is no pod.
	Pod *corev1.Pod
	// Port is the number in Address.
	Port string
}

type contextKey struct{}

// With returns a context in which Dialer connects to the endpoint: http.Transport dials with the values of a
// request's context.
func With(ctx context.Context, endpoint Endpoint) context.Context {
	return context.WithValue(ctx, contextKey{}, endpoint)
}

func from(ctx context.Context) Endpoint {
	endpoint, _ := ctx.Value(contextKey{}).(Endpoint)
	return endpoint
}
