package nodeproxy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Services finds the pods that serve Services, by their EndpointSlices. All functions are required; their
// errors are API errors.
type Services struct {
	// Service returns a Service.
	Service func(ctx context.Context, namespace, name string) (*corev1.Service, error)
	// Slices returns the EndpointSlices of a namespace.
	Slices func(ctx context.Context, namespace string) ([]*discoveryv1.EndpointSlice, error)
	// Pod returns a pod.
	Pod func(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

// Endpoint implements Proxies.Endpoint. Of several it takes any. As in Kubernetes, an endpoint must be a pod
// that has its address, since anybody who may write EndpointSlices could otherwise reach anything.
func (s Services) Endpoint(ctx context.Context, namespace, name, port string) (*corev1.Pod, string, error) {
	if number, err := strconv.ParseInt(port, 10, 64); err == nil {
		service, err := s.Service(ctx, namespace, name)
		if err != nil {
			return nil, "", err
		}
		at := slices.IndexFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return int64(p.Port) == number })
		if at < 0 {
			return nil, "", apierrors.NewServiceUnavailable(fmt.Sprintf("no service port %d found for service %q", number, name))
		}
		port = service.Spec.Ports[at].Name
	}
	all, err := s.Slices(ctx, namespace)
	if err != nil {
		return nil, "", err
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, slice := range all {
		at := slices.IndexFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool {
			return p.Port != nil && (p.Name == nil && port == "" || p.Name != nil && *p.Name == port)
		})
		if slice.Labels[discoveryv1.LabelServiceName] != name || at < 0 || len(slice.Endpoints) == 0 {
			continue
		}
		first := rand.IntN(len(slice.Endpoints)) //nolint:gosec // It spreads load.
		for i := range slice.Endpoints {
			if pod := s.behind(ctx, namespace, &slice.Endpoints[(first+i)%len(slice.Endpoints)]); pod != nil {
				return pod, strconv.Itoa(int(*slice.Ports[at].Port)), nil
			}
		}
	}
	return nil, "", apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
}

// behind returns the pod of an endpoint; nil if the endpoint is not ready, or not a pod.
func (s Services) behind(ctx context.Context, namespace string, endpoint *discoveryv1.Endpoint) *corev1.Pod {
	ready, of := endpoint.Conditions.Ready, endpoint.TargetRef
	if ready != nil && !*ready || len(endpoint.Addresses) == 0 || of == nil || of.Kind != "Pod" || of.Namespace != "" && of.Namespace != namespace {
		return nil
	}
	pod, err := s.Pod(ctx, namespace, of.Name)
	if err != nil || !slices.ContainsFunc(pod.Status.PodIPs, func(ip corev1.PodIP) bool { return ip.IP == endpoint.Addresses[0] }) {
		return nil
	}
	return pod
}
