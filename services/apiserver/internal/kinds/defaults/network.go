package defaults

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// clientIPSeconds is how long a client stays with the same pod of a service: three hours.
const clientIPSeconds int32 = 3 * 60 * 60

// Service sets the defaults of a service, except allocated values.
func Service(s *corev1.Service) {
	setString(&s.Spec.SessionAffinity, corev1.ServiceAffinityNone)
	switch s.Spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		s.Spec.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		c := s.Spec.SessionAffinityConfig
		if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			seconds := clientIPSeconds
			s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
		}
	}
	setString(&s.Spec.Type, corev1.ServiceTypeClusterIP)
	for i := range s.Spec.Ports {
		port := &s.Spec.Ports[i]
		setString(&port.Protocol, corev1.ProtocolTCP)
		if port.TargetPort == intstr.FromInt32(0) || port.TargetPort == intstr.FromString("") {
			port.TargetPort = intstr.FromInt32(port.Port)
		}
	}
	external := s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
	if external || s.Spec.Type == corev1.ServiceTypeClusterIP && len(s.Spec.ExternalIPs) > 0 {
		setString(&s.Spec.ExternalTrafficPolicy, corev1.ServiceExternalTrafficPolicyCluster)
	}
	if external || s.Spec.Type == corev1.ServiceTypeClusterIP {
		set(&s.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster)
	}
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	set(&s.Spec.AllocateLoadBalancerNodePorts, true)
	for i := range s.Status.LoadBalancer.Ingress {
		if point := &s.Status.LoadBalancer.Ingress[i]; point.IP != "" {
			set(&point.IPMode, corev1.LoadBalancerIPModeVIP)
		}
	}
}

// Endpoints sets the defaults of endpoints.
func Endpoints(e *corev1.Endpoints) {
	for i := range e.Subsets {
		for n := range e.Subsets[i].Ports {
			setString(&e.Subsets[i].Ports[n].Protocol, corev1.ProtocolTCP)
		}
	}
}

// EndpointSlice sets the defaults of an endpoint slice.
func EndpointSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		set(&s.Ports[i].Name, "")
		set(&s.Ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// NetworkPolicy sets the defaults of a network policy: it covers ingress, and egress only if it has
// egress rules.
func NetworkPolicy(p *networkingv1.NetworkPolicy) {
	ports := func(ports []networkingv1.NetworkPolicyPort) {
		for i := range ports {
			set(&ports[i].Protocol, corev1.ProtocolTCP)
		}
	}
	for i := range p.Spec.Ingress {
		ports(p.Spec.Ingress[i].Ports)
	}
	for i := range p.Spec.Egress {
		ports(p.Spec.Egress[i].Ports)
	}
	if len(p.Spec.PolicyTypes) > 0 {
		return
	}
	p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(p.Spec.Egress) > 0 {
		p.Spec.PolicyTypes = append(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

// IngressClass sets the defaults of an ingress class: its parameters are cluster-scoped.
func IngressClass(c *networkingv1.IngressClass) {
	if c.Spec.Parameters != nil {
		set(&c.Spec.Parameters.Scope, networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}
