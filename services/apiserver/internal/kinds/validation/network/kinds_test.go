package network_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/defaults"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/network"
)

const (
	badCIDR  = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
	wildcard = `a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
	fixed    = "field is immutable"
)

func newIngress(change func(*networkingv1.Ingress)) *networkingv1.Ingress {
	i := &networkingv1.Ingress{ObjectMeta: meta("web"), Spec: networkingv1.IngressSpec{
		IngressClassName: new("nginx"), TLS: []networkingv1.IngressTLS{{Hosts: []string{"a.example.com", "*.example.com"}, SecretName: "tls"}},
		Rules: []networkingv1.IngressRule{{Host: "a.example.com", IngressRuleValue: networkingv1.IngressRuleValue{HTTP: &networkingv1.HTTPIngressRuleValue{
			Paths: []networkingv1.HTTPIngressPath{{Path: "/a", PathType: new(networkingv1.PathTypePrefix), Backend: networkingv1.IngressBackend{
				Service: &networkingv1.IngressServiceBackend{Name: "web", Port: networkingv1.ServiceBackendPort{Number: 80}},
			}}},
		}}}},
	}}
	if change != nil {
		change(i)
	}
	return i
}

func TestIngress(t *testing.T) {
	type ing = *networkingv1.Ingress
	first := func(i ing) *networkingv1.HTTPIngressPath { return &i.Spec.Rules[0].HTTP.Paths[0] }
	const rule, path = "spec.rules[0]", "spec.rules[0].http.paths[0]"
	resource := func(group *string, kind, name string) func(ing) {
		return func(i ing) {
			first(i).Backend = networkingv1.IngressBackend{Resource: &corev1.TypedLocalObjectReference{APIGroup: group, Kind: kind, Name: name}}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(ing)
		want   []string
	}{
		{"whole", nil, nil},
		{"nothing", func(i ing) { i.Spec = networkingv1.IngressSpec{} }, []string{"spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"}},
		{"default backend alone", func(i ing) {
			i.Spec = networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "1a", Port: networkingv1.ServiceBackendPort{Name: "http"}}}}
		}, nil},
		{"empty default backend", func(i ing) { i.Spec.DefaultBackend = &networkingv1.IngressBackend{} }, []string{`spec.defaultBackend: Invalid value: "": resource or service backend is required`}},
		{"rule without paths", func(i ing) { i.Spec.Rules[0].HTTP.Paths = nil }, []string{rule + ".http.paths: Required value"}},
		{"rule of a host alone", func(i ing) { i.Spec.Rules[0].HTTP = nil }, nil},
		{"address as host", func(i ing) { i.Spec.Rules[0].Host = "1.2.3.4" }, []string{rule + `.host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`}},
		{"bad host", func(i ing) { i.Spec.Rules[0].Host = "A" }, []string{rule + `.host: Invalid value: "A": ` + lower}},
		{"wildcard", func(i ing) { i.Spec.Rules[0].Host = "*.a.example.com" }, nil},
		{"bad wildcard", func(i ing) { i.Spec.Rules[0].Host = "a.*.example.com" }, []string{rule + `.host: Invalid value: "a.*.example.com": ` + wildcard}},
		{"no path type", func(i ing) { first(i).PathType = nil }, []string{path + ".pathType: Required value: pathType must be specified"}},
		{"unknown path type", func(i ing) { first(i).PathType = new(networkingv1.PathType("Regex")) }, []string{path + `.pathType: Unsupported value: "Regex": supported values: "Exact", "ImplementationSpecific", "Prefix"`}},
		{"relative path", func(i ing) { first(i).Path = "a" }, []string{path + `.path: Invalid value: "a": must be an absolute path`}},
		{"no path", func(i ing) { first(i).Path = "" }, []string{path + `.path: Invalid value: "": must be an absolute path`}},
		{"parts of a path", func(i ing) { first(i).Path = "//./../%2f%2F/.." }, []string{
			path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '//'`, path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '/./'`,
			path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '/../'`, path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '%2f'`,
			path + `.path: Invalid value: "//./../%2f%2F/..": must not contain '%2F'`, path + `.path: Invalid value: "//./../%2f%2F/..": cannot end with '/..'`,
		}},
		{"end of a path", func(i ing) { first(i).Path = "/a/." }, []string{path + `.path: Invalid value: "/a/.": cannot end with '/.'`}},
		{"any path", func(i ing) {
			first(i).Path, first(i).PathType = "/a/..//", new(networkingv1.PathTypeImplementationSpecific)
		}, nil},
		{"any relative path", func(i ing) { first(i).Path, first(i).PathType = "a", new(networkingv1.PathTypeImplementationSpecific) }, []string{path + `.path: Invalid value: "a": must be an absolute path`}},
		{"two backends", func(i ing) { first(i).Backend.Resource = &corev1.TypedLocalObjectReference{} }, []string{path + `.backend: Invalid value: "": cannot set both resource and service backends`}},
		{"resource", resource(new("example.com"), "Bucket", "b"), nil},
		{"bad resource", resource(new("A"), "a/b", ""), []string{
			path + `.backend.resource.apiGroup: Invalid value: "A": ` + lower, path + `.backend.resource.kind: Invalid value: "a/b": may not contain '/'`, path + ".backend.resource.name: Required value",
		}},
		{"resource without a kind", resource(nil, "", ".."), []string{path + ".backend.resource.kind: Required value", path + `.backend.resource.name: Invalid value: "..": may not be '..'`}},
		{"no service", func(i ing) { first(i).Backend.Service.Name = "" }, []string{path + ".backend.service.name: Required value"}},
		{"bad service", func(i ing) { first(i).Backend.Service.Name = "A" }, []string{path + `.backend.service.name: Invalid value: "A": ` + label}},
		{"no port", func(i ing) { first(i).Backend.Service.Port.Number = 0 }, []string{path + ".backend: Required value: port name or number is required"}},
		{"two ports", func(i ing) { first(i).Backend.Service.Port.Name = "http" }, []string{path + `.backend: Invalid value: "": cannot set both port name & port number`}},
		{"bad port", func(i ing) { first(i).Backend.Service.Port.Number = -1 }, []string{path + ".backend.service.port.number: Invalid value: -1: " + ports}},
		{"bad port name", func(i ing) { first(i).Backend.Service.Port = networkingv1.ServiceBackendPort{Name: "1"} }, []string{path + `.backend.service.port.name: Invalid value: "1": must contain at least one letter (a-z)`}},
		{"bad TLS", func(i ing) { i.Spec.TLS[0].Hosts, i.Spec.TLS[0].SecretName = []string{"A", "*"}, "B" }, []string{
			`spec.tls[0].hosts[0]: Invalid value: "A": ` + lower, `spec.tls[0].hosts[1]: Invalid value: "*": ` + wildcard, `spec.tls[0].secretName: Invalid value: "B": ` + lower,
		}},
		{"bad class", func(i ing) { i.Spec.IngressClassName = new("A") }, []string{`spec.ingressClassName: Invalid value: "A": ` + lower}},
		{"class twice", func(i ing) { i.Annotations = map[string]string{network.AnnotationIngressClass: "nginx"} }, nil},
		{"class by annotation", func(i ing) {
			i.Spec.IngressClassName, i.Annotations = nil, map[string]string{network.AnnotationIngressClass: "other"}
		}, nil},
		{"two classes", func(i ing) { i.Annotations = map[string]string{network.AnnotationIngressClass: "other"} },
			[]string{"annotations.kubernetes.io/ingress.class: Invalid value: \"other\": must match `ingressClassName` when both are specified"}},
	} {
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, network.Ingress(newIngress(tc.change)), tc.want...) })
	}
	odd := newIngress(func(i ing) {
		i.Spec.TLS[0].SecretName, i.Spec.Rules[0].Host, i.Spec.Rules[0].HTTP.Paths = "B", "*.example.com", nil
		i.Annotations = map[string]string{network.AnnotationIngressClass: "other"}
	})
	errortest.Exactly(t, network.IngressUpdate(odd, odd))
	errortest.Exactly(t, network.IngressUpdate(odd, newIngress(nil)), "spec.rules[0].http.paths: Required value", `spec.tls[0].secretName: Invalid value: "B": `+lower)
	status := func(ip, host string) ing {
		return newIngress(func(i ing) {
			i.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: ip, Hostname: host}}
		})
	}
	errortest.Exactly(t, network.IngressStatus(status("1.2.3.4", "a.example.com"), newIngress(nil)))
	errortest.Exactly(t, network.IngressStatus(status("01.2.3.4", ""), status("01.2.3.4", "")))
	errortest.Exactly(t, network.IngressStatus(status("x", "1.2.3.4"), newIngress(nil)), `status.loadBalancer.ingress[0].ip: Invalid value: "x": `+badIP,
		`status.loadBalancer.ingress[0].hostname: Invalid value: "1.2.3.4": must be a DNS name, not an IP address`)
}

func TestIngressClass(t *testing.T) {
	type class = *networkingv1.IngressClass
	build := func(change func(class)) class {
		c := &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1"}, Spec: networkingv1.IngressClassSpec{
			Controller: "example.com/c", Parameters: &networkingv1.IngressClassParametersReference{APIGroup: new("example.com"), Kind: "P", Name: "p"},
		}}
		change(c)
		defaults.IngressClass(c)
		return c
	}
	scope := func(scope string, namespace *string) func(class) {
		return func(c class) { c.Spec.Parameters.Scope, c.Spec.Parameters.Namespace = &scope, namespace }
	}
	for _, tc := range []struct {
		name   string
		change func(class)
		want   []string
	}{
		{"whole", func(class) {}, nil},
		{"namespaced", scope("Namespace", new("ns")), nil},
		{"no controller", func(c class) { c.Spec.Controller = "" }, []string{"spec.controller: Required value"}},
		{"long controller", func(c class) { c.Spec.Controller = "example.com/" + strings.Repeat("a", 250) }, []string{"spec.controller: Too long: may not be more than 250 bytes"}},
		{"bad controller", func(c class) { c.Spec.Controller = "c" }, []string{`spec.controller: Invalid value: "c": must be a domain-prefixed path (such as "acme.io/foo")`}},
		{"bad parameters", func(c class) {
			c.Spec.Parameters = &networkingv1.IngressClassParametersReference{APIGroup: new("A"), Kind: "a%b"}
		}, []string{
			`spec.parameters.apiGroup: Invalid value: "A": ` + lower, `spec.parameters.kind: Invalid value: "a%b": may not contain '%'`, "spec.parameters.name: Required value",
		}},
		{"unknown scope", scope("Node", nil), []string{`spec.parameters.scope: Unsupported value: "Node": supported values: "Cluster", "Namespace"`}},
		{"no namespace", scope("Namespace", nil), []string{"spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'"}},
		{"bad namespace", scope("Namespace", new("A")), []string{`spec.parameters.namespace: Invalid value: "A": ` + label}},
		{"needless namespace", scope("Cluster", new("ns")), []string{"spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"}},
	} {
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, network.IngressClass(build(tc.change)), tc.want...) })
	}
	bare := build(func(class) {})
	bare.Spec.Parameters.Scope = nil
	errortest.Exactly(t, network.IngressClass(bare), "spec.parameters.scope: Required value")
	errortest.Exactly(t, network.IngressClassUpdate(build(func(c class) { c.Spec.Controller = "example.com/d" }), build(func(class) {})), `spec.controller: Invalid value: "example.com/d": `+fixed)
	errortest.Exactly(t, network.IngressClassUpdate(build(func(c class) { c.Spec.Parameters = nil }), build(func(class) {})))
}

func TestNetworkPolicy(t *testing.T) {
	type spec = *networkingv1.NetworkPolicySpec
	build := func(change func(spec)) *networkingv1.NetworkPolicy {
		p := &networkingv1.NetworkPolicy{ObjectMeta: meta("p")}
		change(&p.Spec)
		defaults.NetworkPolicy(p)
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
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, network.NetworkPolicy(build(tc.change)), tc.want...) })
	}
	old := build(func(s spec) {
		block("10.0.0.1/8", "10.1.0.1/16")(s)
		s.PodSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b c"}}}
	})
	errortest.Exactly(t, network.NetworkPolicyUpdate(old, old))
	moved := build(func(s spec) {
		s.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.1/8"}}}}}
	})
	errortest.Exactly(t, network.NetworkPolicyUpdate(moved, old))
	errortest.Exactly(t, network.NetworkPolicyUpdate(old, moved), `spec.podSelector.matchExpressions[0].values[0]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
		from+`.ipBlock.except[0]: Invalid value: "10.1.0.1/16": must not have bits set beyond the prefix length`)
}

func TestAddresses(t *testing.T) {
	address := func(name string, ref *networkingv1.ParentReference) *networkingv1.IPAddress {
		return &networkingv1.IPAddress{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "1"}, Spec: networkingv1.IPAddressSpec{ParentRef: ref}}
	}
	ref := &networkingv1.ParentReference{Resource: "services", Namespace: "ns", Name: "s"}
	errortest.Exactly(t, network.IPAddress(address("10.0.0.1", ref)))
	errortest.Exactly(t, network.IPAddress(address("fd00::1", ref)))
	errortest.Exactly(t, network.IPAddress(address("x", nil)), `metadata.name: Invalid value: "x": `+badIP, "spec.parentRef: Required value")
	errortest.Exactly(t, network.IPAddress(address("FD00::1", ref)), `metadata.name: Invalid value: "FD00::1": must be in canonical form ("fd00::1")`)
	errortest.Exactly(t, network.IPAddress(address("10.0.0.1", &networkingv1.ParentReference{Group: "A", Namespace: "a/b"})),
		`spec.parentRef.group: Invalid value: "A": `+lower, "spec.parentRef.resource: Required value", "spec.parentRef.name: Required value", `spec.parentRef.namespace: Invalid value: "a/b": may not contain '/'`)
	other := *ref
	other.Name = "t"
	errortest.Contain(t, network.IPAddressUpdate(address("10.0.0.1", &other), address("10.0.0.1", ref)), "spec.parentRef: Invalid value", fixed)
	errortest.Exactly(t, network.IPAddressUpdate(address("10.0.0.1", ref.DeepCopy()), address("10.0.0.1", ref)))

	cidr := func(cidrs ...string) *networkingv1.ServiceCIDR {
		return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "c", ResourceVersion: "1"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	}
	const path = "spec.cidrs"
	errortest.Exactly(t, network.ServiceCIDR(cidr("10.0.0.0/24", "fd00::/64")))
	errortest.Exactly(t, network.ServiceCIDR(cidr()), path+": Required value: at least one CIDR required")
	errortest.Exactly(t, network.ServiceCIDR(cidr("10.0.0.0/24", "fd00::/64", "x")), path+`: Invalid value: {"cidrs":["10.0.0.0/24","fd00::/64","x"]}: may only hold up to 2 values`)
	errortest.Exactly(t, network.ServiceCIDR(cidr("10.0.0.1/24", "FD00::/64")), path+`[0]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length`, path+`[1]: Invalid value: "FD00::/64": must be in canonical form ("fd00::/64")`)
	errortest.Exactly(t, network.ServiceCIDR(cidr("10.0.0.0/24", "10.0.1.0/24")), path+`: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64`)
	errortest.Exactly(t, network.ServiceCIDRUpdate(cidr("10.0.0.0/24"), cidr("10.0.0.0/24")))
	errortest.Exactly(t, network.ServiceCIDRUpdate(cidr("10.0.1.0/24"), cidr("10.0.0.0/24")), path+`[0]: Invalid value: "10.0.1.0/24": `+fixed)
	errortest.Exactly(t, network.ServiceCIDRUpdate(cidr("10.0.0.0/24", "fd00::/64"), cidr("10.0.0.0/24")))
	errortest.Exactly(t, network.ServiceCIDRUpdate(cidr("10.0.1.0/24", "x"), cidr("10.0.0.0/24")), path+`[0]: Invalid value: "10.0.1.0/24": `+fixed, path+`[1]: Invalid value: "x": `+badCIDR)
	errortest.Exactly(t, network.ServiceCIDRUpdate(cidr("10.0.0.0/24"), cidr("10.0.0.0/24", "fd00::/64")), path+`: Invalid value: ["10.0.0.0/24"]: `+fixed)
}

func TestEndpoints(t *testing.T) {
	type subset = *corev1.EndpointSubset
	build := func(change func(subset)) *corev1.Endpoints {
		e := &corev1.Endpoints{ObjectMeta: meta("e"), Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1", NodeName: new("n"), Hostname: "h"}}, Ports: []corev1.EndpointPort{{Port: 80}},
		}}}
		change(&e.Subsets[0])
		defaults.Endpoints(e)
		return e
	}
	const at = "subsets[0]"
	for _, tc := range []struct {
		name   string
		change func(subset)
		want   []string
	}{
		{"whole", func(subset) {}, nil},
		{"not ready", func(s subset) { s.Addresses, s.NotReadyAddresses = nil, s.Addresses }, nil},
		{"no ports", func(s subset) { s.Ports = nil }, nil},
		{"no addresses", func(s subset) { s.Addresses = nil }, []string{at + ": Required value: must specify `addresses` or `notReadyAddresses`"}},
		{"bad address", func(s subset) { s.Addresses[0].IP = "x" }, []string{at + `.addresses[0].ip: Invalid value: "x": ` + badIP, at + `.addresses[0].ip: Invalid value: "x": must be a valid IP address`}},
		{"loopback", func(s subset) { s.NotReadyAddresses = []corev1.EndpointAddress{{IP: "::1"}} }, []string{at + `.notReadyAddresses[0].ip: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)`}},
		{"bad names", func(s subset) { s.Addresses[0].Hostname, s.Addresses[0].NodeName = "A", new("B") }, []string{at + `.addresses[0].hostname: Invalid value: "A": ` + label, at + `.addresses[0].nodeName: Invalid value: "B": ` + lower}},
		{"bad ports", func(s subset) {
			s.Ports = []corev1.EndpointPort{{Port: 0}, {Name: "A", Port: 1, Protocol: "ICMP", AppProtocol: new("a b")}}
		}, []string{
			at + ".ports[0].name: Required value", at + ".ports[0].port: Invalid value: 0: " + ports, at + `.ports[1].name: Invalid value: "A": ` + label,
			at + `.ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`, at + `.ports[1].appProtocol: Invalid value: "a b": ` + names,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, network.Endpoints(build(tc.change)), tc.want...) })
	}
	odd := build(func(s subset) { s.Addresses[0].IP = "010.0.0.1" })
	errortest.Exactly(t, network.EndpointsUpdate(odd, odd))
	errortest.Exactly(t, network.Endpoints(odd), at+`.addresses[0].ip: Invalid value: "010.0.0.1": must not have leading 0s`)
}

func TestEndpointSlice(t *testing.T) {
	type slice = *discoveryv1.EndpointSlice
	build := func(change func(slice)) slice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: meta("s"), AddressType: "IPv4", Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}, Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}}}
		change(s)
		defaults.EndpointSlice(s)
		return s
	}
	addresses := func(kind discoveryv1.AddressType, addresses ...string) func(slice) {
		return func(s slice) { s.AddressType, s.Endpoints[0].Addresses = kind, addresses }
	}
	many := func(n int, format string) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf(format, i))
		}
		return all
	}
	const at = "endpoints[0]"
	for _, tc := range []struct {
		name   string
		change func(slice)
		want   []string
	}{
		{"whole", func(slice) {}, nil},
		{"six", addresses("IPv6", "fd00::1"), nil},
		{"names", addresses("FQDN", "a.example.com"), nil},
		{"no type", addresses("", "x"), []string{"addressType: Required value"}},
		{"unknown type", addresses("IP", "x"), []string{`addressType: Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"`}},
		{"no addresses", addresses("IPv4"), []string{at + ".addresses: Required value: must contain at least 1 address"}},
		{"many addresses", addresses("IPv4", many(101, "10.0.0.%d")...), []string{at + ".addresses: Too many: 101: must have at most 100 items"}},
		{"bad addresses", addresses("IPv4", "x", "fd00::1", "127.0.0.1"), []string{
			at + `.addresses[0]: Invalid value: "x": ` + badIP, at + `.addresses[1]: Invalid value: "fd00::1": must be an IPv4 address`,
			at + `.addresses[2]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
		}},
		{"four in six", addresses("IPv6", "10.0.0.1"), []string{at + `.addresses[0]: Invalid value: "10.0.0.1": must be an IPv6 address`}},
		{"bad name", addresses("FQDN", "a"), []string{at + `.addresses[0]: Invalid value: "a": should be a domain with at least two segments separated by dots`}},
		{"many endpoints", func(s slice) {
			s.Endpoints = append(s.Endpoints, append([]discoveryv1.Endpoint{}, endpointsOf(1000)...)...)
		}, []string{"endpoints: Too many: 1001: must have at most 1000 items"}},
		{"names of an endpoint", func(s slice) { s.Endpoints[0].NodeName, s.Endpoints[0].Hostname = new("A"), new("B") }, []string{at + `.nodeName: Invalid value: "A": ` + lower, at + `.hostname: Invalid value: "B": ` + label}},
		{"hints", func(s slice) {
			s.Endpoints[0].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}, {Name: "a"}, {Name: "b c"}}, ForNodes: []discoveryv1.ForNode{{Name: "A"}, {Name: "n"}, {Name: "n"}}}
		}, []string{
			at + `.hints.forZones[1].name: Duplicate value: "a"`, at + `.hints.forZones[2].name: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
			at + `.hints.forNodes[0].name: Invalid value: "A": ` + lower, at + `.hints.forNodes[2].name: Duplicate value: "n"`,
		}},
		{"many hints", func(s slice) {
			s.Endpoints[0].Hints = &discoveryv1.EndpointHints{}
			for _, name := range many(9, "z%d") {
				s.Endpoints[0].Hints.ForZones = append(s.Endpoints[0].Hints.ForZones, discoveryv1.ForZone{Name: name})
			}
		}, []string{at + ".hints.forZones: Too many: 9: must have at most 8 items"}},
		{"ports", func(s slice) {
			s.Ports = []discoveryv1.EndpointPort{{Name: new("a")}, {Name: new("a"), Protocol: new(corev1.Protocol("ICMP"))}, {Name: new("A"), AppProtocol: new("a b")}}
		}, []string{
			`ports[1].name: Duplicate value: "a"`, `ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`,
			`ports[2].name: Invalid value: "A": ` + label, `ports[2].appProtocol: Invalid value: "a b": ` + names,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, network.EndpointSlice(build(tc.change)), tc.want...) })
	}
	bare := build(func(slice) {})
	bare.Ports[0].Protocol = nil
	errortest.Exactly(t, network.EndpointSlice(bare), "ports[0].protocol: Required value")
	errortest.Exactly(t, network.EndpointSliceUpdate(build(addresses("IPv6", "fd00::1")), build(func(slice) {})), `addressType: Invalid value: "IPv6": `+fixed)
	odd := build(addresses("IPv4", "010.0.0.1"))
	errortest.Exactly(t, network.EndpointSliceUpdate(odd, odd))
}

func endpointsOf(n int) []discoveryv1.Endpoint {
	all := make([]discoveryv1.Endpoint, n)
	for i := range all {
		all[i].Addresses = []string{"10.0.0.1"}
	}
	return all
}
