package service

import (
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
