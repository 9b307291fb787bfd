package sample

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Ports of Services, and of their endpoints.
const (
	ServicePort  = 80
	EndpointPort = 8080
)

// endpointsEach is the number of endpoints of a Service.
const endpointsEach = 10

// ClusterIP returns the address of a Service, of which there may be 65,536.
func ClusterIP(n int) string { return fmt.Sprintf("10.100.%d.%d", n>>8, n&255) }

// Endpoint returns the address of an endpoint of a Service. All are below 10.168.0.0 for 10,000 Services.
func Endpoint(n, endpoint int) string {
	return fmt.Sprintf("10.%d.%d.%d", 128+n>>8, n&255, endpoint+1)
}

// ServiceName returns the name of a Service.
func ServiceName(n int) string { return "s-" + strconv.Itoa(n) }

// Service returns a Service without a selector, so that no controller writes its endpoints.
func Service(n int) *corev1.Service {
	ip := ClusterIP(n)
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: ServiceName(n)},
		Spec: corev1.ServiceSpec{
			ClusterIP: ip, ClusterIPs: []string{ip}, Type: corev1.ServiceTypeClusterIP,
			Ports: []corev1.ServicePort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: ServicePort, TargetPort: intstr.FromInt32(EndpointPort)}},
		},
	}
}

// EndpointSlice returns the endpoints of a Service, which are on another node.
func EndpointSlice(n int) *discoveryv1.EndpointSlice {
	name, protocol, port, node, ready := "web", corev1.ProtocolTCP, int32(EndpointPort), "another", true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: ServiceName(n), Labels: map[string]string{discoveryv1.LabelServiceName: ServiceName(n)}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}
	for e := range endpointsEach {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{Endpoint(n, e)}, NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
		})
	}
	return slice
}
