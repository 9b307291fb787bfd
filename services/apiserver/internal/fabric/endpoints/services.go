package endpoints

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Services finds the endpoints of Services. All functions are required; their errors are API errors.
type Services struct {
	// Service returns a Service.
	Service func(ctx context.Context, namespace, name string) (*corev1.Service, error)
	// Slices returns the EndpointSlices of a namespace.
	Slices func(ctx context.Context, namespace string) ([]*discoveryv1.EndpointSlice, error)
	// Pod returns a pod.
	Pod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

// Resolve returns a ready endpoint of a Service's port, any of several, for callers that the Service's owner
// chose: webhooks and aggregated APIs. It resolves as kube-apiserver does with --enable-aggregator-routing, so
// that an ExternalName is its own endpoint. Its errors are API errors.
func (s Services) Resolve(ctx context.Context, namespace, name string, port int32) (Endpoint, error) {
	service, err := s.Service(ctx, namespace, name)
	if err != nil {
		return Endpoint{}, err
	}
	switch service.Spec.Type {
	case corev1.ServiceTypeExternalName:
		number := strconv.Itoa(int(port))
		return Endpoint{Address: net.JoinHostPort(service.Spec.ExternalName, number), Port: number}, nil
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
	default:
		return Endpoint{}, fmt.Errorf("unsupported service type %q", service.Spec.Type)
	}
	named, err := portName(service, name, int64(port))
	if err != nil {
		return Endpoint{}, err
	}
	all, err := s.Slices(ctx, namespace)
	if err != nil {
		return Endpoint{}, err
	}
	family := corev1.IPFamilyUnknown
	if len(service.Spec.IPFamilies) > 0 {
		family = service.Spec.IPFamilies[0]
	}
	var found Endpoint
	for one := range ready(all, name, named, discoveryv1.AddressType(family)) {
		found = Endpoint{Address: net.JoinHostPort(one.Addresses[0], one.port), Port: one.port, Pod: s.podOf(ctx, namespace, one.Endpoint)}
		break
	}
	if found.Address == "" {
		return Endpoint{}, none(name)
	}
	return found, nil
}

// PodOf returns a pod that serves a Service's port, a name or a number, and the number of the pod's port. As in
// Kubernetes, an endpoint must be a pod that has its address: a client chooses the Service, and anybody who may
// write EndpointSlices could otherwise reach anything. Its errors are API errors.
func (s Services) PodOf(ctx context.Context, namespace, name, port string) (*corev1.Pod, string, error) {
	if number, err := strconv.ParseInt(port, 10, 64); err == nil {
		service, err := s.Service(ctx, namespace, name)
		if err != nil {
			return nil, "", err
		}
		if port, err = portName(service, name, number); err != nil {
			return nil, "", err
		}
	}
	all, err := s.Slices(ctx, namespace)
	if err != nil {
		return nil, "", err
	}
	for one := range ready(all, name, port, "") {
		if pod := s.podOf(ctx, namespace, one.Endpoint); pod != nil {
			return pod, one.port, nil
		}
	}
	return nil, "", none(name)
}

// portName returns the name of a Service's port with a number.
func portName(service *corev1.Service, name string, number int64) (string, error) {
	at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == number })
	if at < 0 {
		return "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
	}
	return service.Spec.Ports[at].Name, nil
}

func none(service string) error {
	return apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", service))
}

// podOf returns the pod of an endpoint; nil if the endpoint is not a pod that has the address.
func (s Services) podOf(ctx context.Context, namespace string, endpoint *discoveryv1.Endpoint) *corev1.Pod {
	of := endpoint.TargetRef
	if of == nil || of.Kind != "Pod" || of.Namespace != "" && of.Namespace != namespace {
		return nil
	}
	pod, err := s.Pod(ctx, namespace, of.Name)
	if err != nil || !slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == endpoint.Addresses[0] }) {
		return nil
	}
	return pod
}
