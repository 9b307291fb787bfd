package networking

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/libs/scheme"
	"github.com/garboard/garboard/services/apiserver/internal/kinds"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/kindtest"
)

// TestRows checks that the cells are those that kubectl shows against Kubernetes.
func TestRows(t *testing.T) {
	meta := metav1.ObjectMeta{Name: "x", CreationTimestamp: kindtest.Ago(3 * time.Hour)}
	rules := func(hosts ...string) (rules []networkingv1.IngressRule) {
		for _, host := range hosts {
			rules = append(rules, networkingv1.IngressRule{Host: host})
		}
		return rules
	}
	points := func(points ...networkingv1.IngressLoadBalancerIngress) networkingv1.IngressStatus {
		return networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{Ingress: points}}
	}
	for _, tc := range []struct {
		name  string
		kind  *kinds.Definition
		obj   scheme.Object
		cells []any
	}{
		{"ingress of any host", Ingress(), &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: rules("")}}, []any{"x", "<none>", "*", "", "80", "3h"}},
		{"ingress", Ingress(), &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{
			IngressClassName: new("nginx"), Rules: rules("a", "b"), TLS: []networkingv1.IngressTLS{{}},
		}, Status: points(networkingv1.IngressLoadBalancerIngress{IP: "9.9.9.9", Hostname: "not shown"}, networkingv1.IngressLoadBalancerIngress{Hostname: "3.example.com"}, networkingv1.IngressLoadBalancerIngress{IP: "9.9.9.9"})},
			[]any{"x", "nginx", "a,b", "3.example.com,9.9.9.9", "80, 443", "3h"}},
		{"ingress of many hosts", Ingress(), &networkingv1.Ingress{ObjectMeta: meta, Spec: networkingv1.IngressSpec{Rules: rules("a", "b", "c", "", "e")}}, []any{"x", "<none>", "a,b,c + 2 more...", "", "80", "3h"}},
		{"ingress class", IngressClass(), &networkingv1.IngressClass{ObjectMeta: meta, Spec: networkingv1.IngressClassSpec{Controller: "acme.io/c"}}, []any{"x", "acme.io/c", "<none>", "3h"}},
		{"ingress class with parameters", IngressClass(), &networkingv1.IngressClass{ObjectMeta: meta, Spec: networkingv1.IngressClassSpec{
			Controller: "acme.io/c", Parameters: &networkingv1.IngressClassParametersReference{APIGroup: new("acme.io"), Kind: "P", Name: "p"},
		}}, []any{"x", "acme.io/c", "P.acme.io/p", "3h"}},
		{"network policy", NetworkPolicy(), &networkingv1.NetworkPolicy{ObjectMeta: meta}, []any{"x", "<none>", "3h"}},
		{"network policy of some pods", NetworkPolicy(), &networkingv1.NetworkPolicy{ObjectMeta: meta, Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}}, []any{"x", "a=b", "3h"}},
		{"range", ServiceCIDR(), &networkingv1.ServiceCIDR{ObjectMeta: meta, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.0.0/24", "fd00::/64"}}}, []any{"x", "10.0.0.0/24,fd00::/64", "3h"}},
		{"address", IPAddress(), &networkingv1.IPAddress{ObjectMeta: meta, Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "n", Name: "s"}}}, []any{"x", "services/n/s"}},
		{"address of a cluster-wide object", IPAddress(), &networkingv1.IPAddress{ObjectMeta: meta, Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "Acme.io", Resource: "gateways", Name: "g"}}}, []any{"x", "gateways.acme.io/g"}},
		{"address without a parent", IPAddress(), &networkingv1.IPAddress{ObjectMeta: meta}, []any{"x", "<none>"}},
	} {
		t.Run(tc.name, func(t *testing.T) { kindtest.Cells(t, tc.kind, tc.obj, tc.cells) })
	}
}
