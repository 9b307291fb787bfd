package networking

import (
	"slices"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIngressClassAnnotationIsWarnedOf(t *testing.T) {
	annotated := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"kubernetes.io/ingress.class": "nginx"}}}
	both := annotated.DeepCopy()
	both.Spec.IngressClassName = new("nginx")
	for name, tc := range map[string]struct {
		ingress *networkingv1.Ingress
		want    []string
	}{
		"no class":   {&networkingv1.Ingress{}, nil},
		"annotation": {annotated, []string{`annotation "kubernetes.io/ingress.class" is deprecated, please use 'spec.ingressClassName' instead`}},
		"both":       {both, nil},
	} {
		if got := Ingress().CreationWarnings(tc.ingress); !slices.Equal(got, tc.want) {
			t.Errorf("%s: got warnings %q, want %q", name, got, tc.want)
		}
	}
}

func TestIngressStatusWarnings(t *testing.T) {
	i := &networkingv1.Ingress{Status: networkingv1.IngressStatus{LoadBalancer: networkingv1.IngressLoadBalancerStatus{
		Ingress: []networkingv1.IngressLoadBalancerIngress{{Hostname: "a"}, {IP: "1.2.3.4"}, {IP: "2001:DB8::1"}},
	}}}
	want := []string{`status.loadBalancer.ingress[2]: IPv6 address "2001:DB8::1" should be in RFC 5952 canonical format ("2001:db8::1")`}
	if got := Ingress().Subresources["status"].Warnings(i, i); !slices.Equal(got, want) {
		t.Errorf("got warnings %q", got)
	}
}
