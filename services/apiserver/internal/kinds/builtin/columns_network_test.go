package builtin

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
)

func TestNetworkRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: ago(3 * time.Hour)}
	rules := func(hosts ...string) (rules []networkingv1.IngressRule) {
		for _, host := range hosts {
			rules = append(rules, networkingv1.IngressRule{Host: host})
		}
		return rules
	}
	points := func(points ...networkingv1.IngressLoadBalancerIngress) networkingv1.IngressStatus {
		return networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: points}}
	}
	addresses := func(ips ...string) (all []corev1.EndpointAddress) {
		for _, ip := range ips {
			all = append(all, corev1.EndpointAddress{IP: ip})
		}
		return all
	}
	table := scheme.New()
	for _, tc := range []struct {
		name  string
		obj   scheme.Object
		cells []any
	}{
		{"ingress of any host", &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: rules("")}}, []any{"x", "<none>", "*", "", "80", "3h"}},
		{"ingress", &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
			IngressClassName: new("nginx"), Rules: rules("a", "b"), TLS: []networkingv1.IngressTLS{{}},
		}, Status: points(networkingv1.IngressLoadBalancerIngress{IP: "9.9.9.9", Hostname: "not shown"}, networkingv1.IngressLoadBalancerIngress{Hostname: "3.example.com"}, networkingv1.IngressLoadBalancerIngress{IP: "9.9.9.9"})},
			[]any{"x", "nginx", "a,b", "3.example.com,9.9.9.9", "80, 443", "3h"}},
		{"ingress of many hosts", &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: rules("a", "b", "c", "", "e")}}, []any{"x", "<none>", "a,b,c + 2 more...", "", "80", "3h"}},
		{"ingress class", &networkingv1.IngressClass{ObjectMeta: meta, Spec: networkingv1.IngressClassSpec{Controller: "acme.io/c"}}, []any{"x", "acme.io/c", "<none>", "3h"}},
		{"ingress class with parameters", &networkingv1.IngressClass{ObjectMeta: meta, Spec: networkingv1.IngressClassSpec{
			Controller: "acme.io/c", Parameters: &networkingv1.IngressClassParametersReference{APIGroup: new("acme.io"), Kind: "P", Name: "p"},
		}}, []any{"x", "acme.io/c", "P.acme.io/p", "3h"}},
		{"network policy", &networkingv1.NetworkPolicy{ObjectMeta: meta}, []any{"x", "<none>", "3h"}},
		{"network policy of some pods", &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}, []any{"x", "a=b", "3h"}},
		{"range", &networkingv1.ServiceCIDR{ObjectMeta: meta, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24", "fd00::/64"}}}, []any{"x", "10.0.0.0/24,fd00::/64", "3h"}},
		{"address", &networkingv1.IPAddress{ObjectMeta: meta, Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "n", Name: "s"}}}, []any{"x", "services/n/s"}},
		{"address of a cluster-wide object", &networkingv1.IPAddress{ObjectMeta: meta, Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "Acme.io", Resource: "gateways", Name: "g"}}}, []any{"x", "gateways.acme.io/g"}},
		{"address without a parent", &networkingv1.IPAddress{ObjectMeta: meta}, []any{"x", "<none>"}},
		{"no endpoints", &corev1.Endpoints{ObjectMeta: meta}, []any{"x", "<none>", "3h"}},
		{"endpoints without ports", &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{Addresses: addresses("1.1.1.1", "2.2.2.2")}}}, []any{"x", "1.1.1.1,2.2.2.2", "3h"}},
		{"endpoints", &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{
			{Addresses: addresses("1.1.1.1", "fd00::1"), NotReadyAddresses: addresses("9.9.9.9"), Ports: []corev1.EndpointPort{{Port: 80}, {Port: 443}}},
			{Addresses: addresses("3.3.3.3"), Ports: []corev1.EndpointPort{{Port: 8080}}},
		}}, []any{"x", "1.1.1.1:80,[fd00::1]:80,1.1.1.1:443 + 2 more...", "3h"}},
		{"endpoints that are not ready", &corev1.Endpoints{ObjectMeta: meta, Subsets: []corev1.EndpointSubset{{NotReadyAddresses: addresses("9.9.9.9"), Ports: []corev1.EndpointPort{{Port: 80}}}}}, []any{"x", "", "3h"}},
		{"load balancer", &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, ExternalIPs: []string{"5.5.5.5"}}, Status: corev1.ServiceStatus{
			LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: "9.9.9.9"}, {Hostname: "3.example.com"}, {IP: "9.9.9.9"}}},
		}}, []any{"x", "LoadBalancer", "<none>", "3.example.com,9.9.9.9,5.5.5.5", "<none>", "3h", "<none>"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kind := table.KindOf(tc.obj)
			if got := All(Config{})[kind.GroupVersionKind].Columns.Table([]scheme.Object{tc.obj}, nil, nil, now).Rows[0].Cells; !reflect.DeepEqual(got, tc.cells) {
				t.Errorf("got  %q\nwant %q", got, tc.cells)
			}
		})
	}
}
