package endpointslice

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	netutils "k8s.io/utils/net"

	"github.com/garboard/garboard/services/controllers/internal/podstate"
	"github.com/garboard/garboard/services/controllers/internal/serviceendpoints"
)

// group is the endpoints that have the same ports.
type group struct {
	ports     []discoveryv1.EndpointPort
	endpoints map[serviceendpoints.Identity]*discoveryv1.Endpoint
	// order are the identities in the order in which they fill slices.
	order []serviceendpoints.Identity
}

// wanted returns the endpoints of a Service with one type of addresses, by the key of their ports. The
// error tells of pods on nodes that do not exist: they are left out, and tried again.
func (r *reconciler) wanted(svc *corev1.Service, pods []*corev1.Pod, addressType discoveryv1.AddressType) (map[string]*group, error) {
	groups := map[string]*group{}
	var missing []error
	for _, pod := range pods {
		if !serviceendpoints.Included(pod) {
			continue
		}
		ports := endpointPorts(svc, pod)
		portKey := serviceendpoints.PortKey(ports)
		g := groups[portKey]
		if g == nil {
			g = &group{ports: ports, endpoints: map[serviceendpoints.Identity]*discoveryv1.Endpoint{}}
			groups[portKey] = g
		}
		node, found := r.nodes.Indexer().GetByKey(pod.Spec.NodeName)
		if !found && !svc.Spec.PublishNotReadyAddresses {
			missing = append(missing, fmt.Errorf("skipping Pod %s for Service %s/%s: Node %s Not Found", pod.Name, svc.Namespace, svc.Name, pod.Spec.NodeName))
			continue
		}
		zone := ""
		if found {
			zone = node.Labels[corev1.LabelTopologyZone]
		}
		endpoint := newEndpoint(svc, pod, zone, addressType)
		if endpoint == nil {
			continue
		}
		id := serviceendpoints.Identify(endpoint)
		if _, twice := g.endpoints[id]; !twice {
			g.order = append(g.order, id)
		}
		g.endpoints[id] = endpoint
	}
	return groups, errors.Join(missing...)
}

// newEndpoint returns the endpoint of a pod; nil if the pod has no address of the type.
func newEndpoint(svc *corev1.Service, pod *corev1.Pod, zone string, addressType discoveryv1.AddressType) *discoveryv1.Endpoint {
	var addresses []string
	for _, podIP := range pod.Status.PodIPs {
		ip := netutils.ParseIPSloppy(podIP.IP)
		if ip != nil && netutils.IsIPv6(ip) == (addressType == discoveryv1.AddressTypeIPv6) {
			addresses = append(addresses, ip.String())
		}
	}
	if len(addresses) == 0 {
		return nil
	}
	serving, terminating := podstate.Ready(pod), pod.DeletionTimestamp != nil
	ready := svc.Spec.PublishNotReadyAddresses || serving && !terminating
	endpoint := &discoveryv1.Endpoint{
		Addresses:  addresses,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		NodeName:   optional(pod.Spec.NodeName), Zone: optional(zone),
		Hostname: optional(serviceendpoints.Hostname(svc, pod)),
	}
	return endpoint
}

func optional(value string) *string {
	if value == "" {
		return nil
	}
	return &value
}

// endpointPorts returns the ports of a Service as a pod has them, without those that it lacks.
func endpointPorts(svc *corev1.Service, pod *corev1.Pod) []discoveryv1.EndpointPort {
	ports := []discoveryv1.EndpointPort{}
	for i := range svc.Spec.Ports {
		port := &svc.Spec.Ports[i]
		if number, found := serviceendpoints.Port(pod, port); found {
			ports = append(ports, discoveryv1.EndpointPort{
				Name: &port.Name, Port: &number, Protocol: &port.Protocol, AppProtocol: port.AppProtocol,
			})
		}
	}
	return ports
}

// addressTypes returns the types of a Service's addresses. One that does not say has the type of its
// address, and both if it is headless.
func addressTypes(svc *corev1.Service) []discoveryv1.AddressType {
	var types []discoveryv1.AddressType
	for _, family := range svc.Spec.IPFamilies {
		switch {
		case family == corev1.IPv4Protocol && !has(types, discoveryv1.AddressTypeIPv4):
			types = append(types, discoveryv1.AddressTypeIPv4)
		case family == corev1.IPv6Protocol && !has(types, discoveryv1.AddressTypeIPv6):
			types = append(types, discoveryv1.AddressTypeIPv6)
		}
	}
	switch {
	case len(types) > 0:
		return types
	case headless(svc):
		return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6}
	case netutils.IsIPv6String(svc.Spec.ClusterIP):
		return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv6}
	}
	return []discoveryv1.AddressType{discoveryv1.AddressTypeIPv4}
}

func has(types []discoveryv1.AddressType, addressType discoveryv1.AddressType) bool {
	return slices.Contains(types, addressType)
}

func headless(svc *corev1.Service) bool {
	return svc.Spec.ClusterIP == corev1.ClusterIPNone || svc.Spec.ClusterIP == ""
}
