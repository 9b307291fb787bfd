package networking

import (
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestNetworkPolicyWarnings checks that every block is looked at, in both directions, and that text
// which is no block is left to validation.
func TestNetworkPolicyWarnings(t *testing.T) {
	peers := func(cidr string, except ...string) []networkingv1.NetworkPolicyPeer {
		return []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}, {IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}}
	}
	p := &networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: peers("10.0.0.0/8", "10.1.0.0/16", "10.2.3.4/16", "garbage")}},
		Egress:  []networkingv1.NetworkPolicyEgressRule{{}, {To: peers("2001:DB8::/32")}},
	}}
	want := []string{"spec.ingress[0].from[1].ipBlock.except[1]: ", "spec.egress[1].to[1].ipBlock.cidr: "}
	got := NetworkPolicy().Warnings(p)
	if len(got) != len(want) {
		t.Fatalf("got warnings %q", got)
	}
	for i, prefix := range want {
		if !strings.HasPrefix(got[i], prefix) {
			t.Errorf("got warning %q, want one of %q", got[i], prefix)
		}
	}
}
