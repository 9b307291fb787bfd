package server

import (
	"context"
	"fmt"
	"net"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/fabric/endpoints"
	"github.com/garboard/garboard/services/apiserver/internal/registry"
)

// cached asks for what the watch cache has.
const cached = "0"

// dialTimeout bounds how long a connection to an endpoint may take to be made. It is client-go's.
const dialTimeout = 30 * time.Second

// newDialer returns what connects to the endpoints of Services.
func (p *plane) newDialer() *endpoints.Dialer {
	return endpoints.NewDialer((&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext, p.nodes.Dial)
}

// endpoints finds the endpoints of Services in the watch cache.
func (p *plane) endpoints() endpoints.Services {
	return endpoints.Services{
		Service: func(ctx context.Context, namespace, name string) (*corev1.Service, error) {
			found, err := registry.Of[*corev1.Service](p.registry).GetAt(ctx, namespace, name, cached)
			if err != nil {
				return nil, err
			}
			service, ok := found.(*corev1.Service)
			if !ok {
				return nil, fmt.Errorf("looking for the service %s/%s gave a %T", namespace, name, found)
			}
			return service, nil
		},
		Slices: func(ctx context.Context, namespace string) ([]*discoveryv1.EndpointSlice, error) {
			found, err := registry.Of[*discoveryv1.EndpointSlice](p.registry).Read(ctx, namespace, metav1.ListOptions{ResourceVersion: cached})
			if err != nil {
				return nil, err
			}
			var slices []*discoveryv1.EndpointSlice
			for _, obj := range found.Objects() {
				if slice, ok := obj.(*discoveryv1.EndpointSlice); ok {
					slices = append(slices, slice)
				}
			}
			return slices, nil
		},
		Pod: func(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
			return p.podAt(ctx, namespace, name, cached)
		},
	}
}
