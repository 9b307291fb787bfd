package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Endpoints resolves Services by their EndpointSlices, and those of type ExternalName by that name.
// Both functions are required; their errors are API errors.
type Endpoints struct {
	// Service returns a Service.
	Service func(ctx context.Context, namespace, name string) (*corev1.Service, error)
	// Slices returns the EndpointSlices of a namespace.
	Slices func(ctx context.Context, namespace string) ([]*discoveryv1.EndpointSlice, error)
}

// Resolve implements Resolver. It picks a ready endpoint at random, one of the Service's first
// address family if there is one.
func (e Endpoints) Resolve(ctx context.Context, namespace, name string, port int32) (string, error) {
	service, err := e.Service(ctx, namespace, name)
	if err != nil {
		return "", err
	}
	switch service.Spec.Type {
	case corev1.ServiceTypeExternalName:
		return net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(port))), nil
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
	default:
		return "", fmt.Errorf("unsupported service type %q", service.Spec.Type)
	}
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port })
	if at < 0 {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", port, name))
	}
	all, err := e.Slices(ctx, namespace)
	if err != nil {
		return "", err
	}
	family := corev1.IPFamilyUnknown
	if len(service.Spec.IPFamilies) > 0 {
		family = service.Spec.IPFamilies[0]
	}
	endpoint, err := pick(all, name, service.Spec.Ports[at].Name, discoveryv1.AddressType(family))
	if err != nil {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
	}
	return endpoint, nil
}

var errNone = errors.New("no endpoint is ready")

// pick returns a ready endpoint of a Service's named port: from a random slice, but from one with the
// preferred addresses if it has any. The slice's port is the one of the pods, by number.
func pick(all []*discoveryv1.EndpointSlice, service, port string, preferred discoveryv1.AddressType) (string, error) {
	var own []*discoveryv1.EndpointSlice
	for _, slice := range all {
		if slice.Labels[discoveryv1.LabelServiceName] == service && slice.AddressType != discoveryv1.AddressTypeFQDN {
			own = append(own, slice)
		}
	}
	rand.Shuffle(len(own), func(i, j int) { own[i], own[j] = own[j], own[i] })
	slices.SortStableFunc(own, func(a, b *discoveryv1.EndpointSlice) int {
		return cmp.Compare(rank(a, preferred), rank(b, preferred))
	})
	for _, slice := range own {
		at := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return p.Name != nil && *p.Name == port && p.Port != nil
		})
		if at < 0 || len(slice.Endpoints) == 0 {
			continue
		}
		first := rand.IntN(len(slice.Endpoints)) //nolint:gosec // It spreads load.
		for i := range slice.Endpoints {
			endpoint := &slice.Endpoints[(first+i)%len(slice.Endpoints)]
			if ready := endpoint.Conditions.Ready; ready != nil && !*ready || len(endpoint.Addresses) == 0 {
				continue
			}
			return net.JoinHostPort(endpoint.Addresses[0], strconv.Itoa(int(*slice.Ports[at].Port))), nil
		}
	}
	return "", errNone
}

func rank(slice *discoveryv1.EndpointSlice, preferred discoveryv1.AddressType) int {
	if slice.AddressType == preferred {
		return 0
	}
	return 1
}
