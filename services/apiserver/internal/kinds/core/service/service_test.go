package service

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestServices(t *testing.T) {
	balanced := &corev1.Service{Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, SessionAffinity: corev1.ServiceAffinityClientIP, Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromString("web")}}}}
	defaultService(balanced)
	if s := balanced.Spec; !*s.AllocateLoadBalancerNodePorts || s.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyCluster ||
		*s.SessionAffinityConfig.ClientIP.TimeoutSeconds != 10800 || s.Ports[0].TargetPort.StrVal != "web" {
		t.Errorf("load balancer: got %+v", s)
	}
	plain := &corev1.Service{}
	defaultService(plain)
	if s := plain.Spec; s.ExternalTrafficPolicy != "" || s.Type != corev1.ServiceTypeClusterIP || *s.InternalTrafficPolicy != corev1.ServiceInternalTrafficPolicyCluster {
		t.Errorf("plain service: got %+v", s)
	}
}

func TestServiceStatusWarnings(t *testing.T) {
	s := &corev1.Service{Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{
		Ingress: []corev1.LoadBalancerIngress{{Hostname: "a"}, {IP: "1.2.3.4"}, {IP: "FD00::1"}},
	}}}
	want := []string{`status.loadBalancer.ingress[2]: IPv6 address "FD00::1" should be in RFC 5952 canonical format ("fd00::1")`}
	if got := Service(nil, nil).Subresources["status"].Warnings(s, s); !slices.Equal(got, want) {
		t.Errorf("got warnings %q", got)
	}
}

// TestPolicyOfExternalName checks that a service of an external name loses its policy only if it is valid.
func TestPolicyOfExternalName(t *testing.T) {
	s := &corev1.Service{Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeExternalName, ExternalName: "a", SessionAffinity: corev1.ServiceAffinityNone, InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicy("Any")),
	}}
	s.Name, s.Namespace = "s", "default"
	kind := Service(nil, nil)
	kind.PrepareForCreate(s)
	if errs := kind.Validate(s); len(errs) != 1 || errs[0].Field != "spec.internalTrafficPolicy" {
		t.Errorf("got %v", errs)
	}
	if kind.Canonicalize(s); s.Spec.InternalTrafficPolicy != nil {
		t.Errorf("got policy %q", *s.Spec.InternalTrafficPolicy)
	}
}
