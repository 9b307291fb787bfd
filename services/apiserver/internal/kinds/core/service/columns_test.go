package service

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(3 * time.Hour)}
	addresses := func(ips ...string) (all []corev1.EndpointAddress) {
		for _, ip := range ips {
			all = append(all, corev1.EndpointAddress{IP: ip})
		}
		return all
	}
	for _, tc := range []struct {
		name  string
		kind  *kinds.Definition
		obj   scheme.Object
		cells []any
	}{
		{
			"service of a node port", Service(nil, nil), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, ClusterIPs: []string{"10.96.0.9"},
				Ports: []corev1.ServicePort{{Port: 80, NodePort: 30080, Protocol: "TCP"}, {Port: 53, Protocol: "UDP"}}}},
			[]any{"x", "NodePort", "10.96.0.9", "<none>", "80:30080/TCP,53/UDP", "3h", "<none>"},
		},
		{
			"service of an external name", Service(nil, nil), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "a.b"}},
			[]any{"x", "ExternalName", "<none>", "a.b", "<none>", "3h", "<none>"},
		},
		{
			"pending load balancer", Service(nil, nil), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ClusterIPs: []string{"10.96.0.9"}}},
			[]any{"x", "LoadBalancer", "10.96.0.9", "<pending>", "<none>", "3h", "<none>"},
		},
		{
			"empty address", Service(nil, nil), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ExternalIPs: []string{""}}},
			[]any{"x", "ClusterIP", "<none>", "", "<none>", "3h", "<none>"},
		},
		{
			"long selector", Service(nil, nil), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"b": "x", "A/b": strings.Repeat("y", 64)}}},
			[]any{"x", "ClusterIP", "<none>", "<none>", "<none>", "3h", "A/b=" + strings.Repeat("y", 64) + ",b=x"},
		},
		{"no endpoints", Endpoints(), &corev1.Endpoints{ObjectMeta: meta}, []any{"x", "<none>", "3h"}},
		{"endpoints without ports", Endpoints(), &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{Addresses: addresses("1.1.1.1", "2.2.2.2")}}}, []any{"x", "1.1.1.1,2.2.2.2", "3h"}},
		{"endpoints", Endpoints(), &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{
			{Addresses: addresses("1.1.1.1", "fd00::1"), NotReadyAddresses: addresses("9.9.9.9"), Ports: []corev1.EndpointPort{{Port: 80}, {Port: 443}}},
			{Addresses: addresses("3.3.3.3"), Ports: []corev1.EndpointPort{{Port: 8080}}},
		}}, []any{"x", "1.1.1.1:80,[fd00::1]:80,1.1.1.1:443 + 2 more...", "3h"}},
		{"endpoints that are not ready", Endpoints(), &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{NotReadyAddresses: addresses("9.9.9.9"), Ports: []corev1.EndpointPort{{Port: 80}}}}}, []any{"x", "", "3h"}},
		{"load balancer", Service(nil, nil), &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalIPs: []string{"5.5.5.5"}}, Status: corev1.ServiceStatus{
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "9.9.9.9"}, {Hostname: "3.example.com"}, {IP: "9.9.9.9"}}},
		}}, []any{"x", "LoadBalancer", "<none>", "3.example.com,9.9.9.9,5.5.5.5", "<none>", "3h", "<none>"}},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Cells(t, tc.kind, tc.obj, tc.cells) })
	}
}
