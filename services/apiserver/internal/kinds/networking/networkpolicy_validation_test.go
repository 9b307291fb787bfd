package networking

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestNetworkPolicy(t *testing.T) {
	type spec = *networkingv1.NetworkPolicySpec
	build := func(change func(spec)) *networkingv1.NetworkPolicy {
		p := &networkingv1.NetworkPolicy{ObjectMeta: meta("p")}
		change(&p.Spec)
		defaultNetworkPolicy(p)
		return p
	}
	peer := func(peer networkingv1.NetworkPolicyPeer) func(spec) {
		return func(s spec) {
			s.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{peer}}}
		}
	}
	port := func(port networkingv1.NetworkPolicyPort) func(spec) {
		return func(s spec) {
			s.Egress = []networkingv1.NetworkPolicyEgressRule{{Ports: []networkingv1.NetworkPolicyPort{port}}}
		}
	}
	block := func(cidr string, except ...string) func(spec) {
		return peer(networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}})
	}
	number := func(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) }
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}}
	const from, to = "spec.ingress[0].from[0]", "spec.egress[0].ports[0]"
	for _, tc := range []struct {
		name   string
		change func(spec)
		want   []string
	}{
		{"nothing", func(spec) {}, nil},
		{"bad selector", func(s spec) { s.PodSelector = *bad }, []string{`spec.podSelector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`}},
		{"selectors", peer(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}}), nil},
		{"bad selectors", peer(networkingv1.NetworkPolicyPeer{PodSelector: bad, NamespaceSelector: bad}), []string{
			from + `.podSelector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`, from + `.namespaceSelector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator`,
		}},
		{"no peer", peer(networkingv1.NetworkPolicyPeer{}), []string{from + ": Required value: must specify a peer"}},
		{"block and selector", peer(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}, IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/8"}}), []string{from + ": Forbidden: may not specify both ipBlock and another peer"}},
		{"block", block("10.0.0.0/8", "10.1.0.0/16", "10.0.0.0/9"), nil},
		{"empty block", block(""), []string{from + ".ipBlock.cidr: Required value"}},
		{"bad block", block("10.0.0.1/8"), []string{from + `.ipBlock.cidr: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length`}},
		{"no block", block("x", "y"), []string{from + `.ipBlock.cidr: Invalid value: "x": ` + badCIDR}},
		{"exceptions", block("10.0.0.0/8", "10.0.0.0/8", "11.0.0.0/16", "x", "fd00::/64"), []string{
			from + ".ipBlock.except[0]: Invalid value: \"10.0.0.0/8\": must be a strict subset of `cidr`", from + ".ipBlock.except[1]: Invalid value: \"11.0.0.0/16\": must be a strict subset of `cidr`",
			from + `.ipBlock.except[2]: Invalid value: "x": ` + badCIDR, from + ".ipBlock.except[3]: Invalid value: \"fd00::/64\": must be a strict subset of `cidr`",
		}},
		{"ports", port(networkingv1.NetworkPolicyPort{Port: number(1), EndPort: new(int32(65535))}), nil},
		{"unknown protocol", port(networkingv1.NetworkPolicyPort{Protocol: new(corev1.Protocol("ICMP"))}), []string{to + `.protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"`}},
		{"bad port", port(networkingv1.NetworkPolicyPort{Port: number(0)}), []string{to + ".port: Invalid value: 0: " + ports}},
		{"bad port name", port(networkingv1.NetworkPolicyPort{Port: new(intstr.FromString("1")), EndPort: new(int32(5))}), []string{
			to + ".endPort: Invalid value: 5: may not be specified when `port` is non-numeric", to + `.port: Invalid value: "1": must contain at least one letter (a-z)`,
		}},
		{"end alone", port(networkingv1.NetworkPolicyPort{EndPort: new(int32(5))}), []string{to + ".endPort: Invalid value: 5: may not be specified when `port` is not specified"}},
		{"end before", port(networkingv1.NetworkPolicyPort{Port: number(9), EndPort: new(int32(8))}), []string{to + ".endPort: Invalid value: 8: must be greater than or equal to `port`"}},
		{"bad end", port(networkingv1.NetworkPolicyPort{Port: number(9), EndPort: new(int32(65536))}), []string{to + ".endPort: Invalid value: 65536: " + ports}},
		{"unknown type", func(s spec) { s.PolicyTypes = []networkingv1.PolicyType{"Ingress", "Sideways"} }, []string{`spec.policyTypes[1]: Unsupported value: "Sideways": supported values: "Ingress", "Egress"`}},
		{"many types", func(s spec) { s.PolicyTypes = []networkingv1.PolicyType{"Ingress", "Egress", "Egress"} }, []string{`spec.policyTypes: Invalid value: ["Ingress","Egress","Egress"]: may not specify more than two policyTypes`}},
	} {
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, validateNetworkPolicy(build(tc.change)), tc.want...) })
	}
	old := build(func(s spec) {
		block("10.0.0.1/8", "10.1.0.1/16")(s)
		s.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b c"}}}
	})
	errortest.Exactly(t, validateNetworkPolicyUpdate(old, old))
	moved := build(func(s spec) {
		s.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.1/8"}}}}}
	})
	errortest.Exactly(t, validateNetworkPolicyUpdate(moved, old))
	errortest.Exactly(t, validateNetworkPolicyUpdate(old, moved), `spec.podSelector.matchExpressions[0].values[0]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		from+`.ipBlock.except[0]: Invalid value: "10.1.0.1/16": must not have bits set beyond the prefix length`)
}
