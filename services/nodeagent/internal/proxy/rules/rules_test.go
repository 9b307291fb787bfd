package rules_test

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/rules"
)

// The addresses of the tests.
const (
	nodeIP     = "192.0.2.1"
	gateway    = "10.244.1.1"
	clusterIP  = "10.96.0.1"
	externalIP = "203.0.113.1"
	balancerIP = "203.0.113.2"
	outside    = "198.51.100.7"
	here       = "10.244.1.2"
	here2      = "10.244.1.3"
	there      = "10.244.2.2"
	there2     = "10.244.2.3"
)

func testNode() *rules.Node {
	return &rules.Node{
		Name: "n1", Zone: "a", IPs: []netip.Addr{netip.MustParseAddr(nodeIP)}, Present: []netip.Addr{netip.MustParseAddr(gateway)},
		PodCIDRs:     []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")},
	}
}

func service(changes ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: clusterIP, ClusterIPs: []string{clusterIP}, ExternalIPs: []string{externalIP},
			Ports: []corev1.ServicePort{{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: balancerIP}}}},
	}
	for _, change := range changes {
		change(s)
	}
	return s
}

func externalLocal(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	s.Spec.HealthCheckNodePort = 32000
}

func internalLocal(s *corev1.Service) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	s.Spec.InternalTrafficPolicy = &local
}

func sticky(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }

func ranges(list ...string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = list }
}

type change = func(*discoveryv1.Endpoint)

func endpoint(addr string, changes ...change) discoveryv1.Endpoint {
	node := "n1"
	if a, err := netip.ParseAddr(addr); err == nil && !netip.MustParsePrefix("10.244.1.0/24").Contains(a) {
		node = "n2"
	}
	e := discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: &node}
	for _, change := range changes {
		change(&e)
	}
	return e
}

func conditions(ready, serving, terminating bool) change {
	return func(e *discoveryv1.Endpoint) {
		e.Conditions = discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
	}
}

func zone(name string) change {
	return func(e *discoveryv1.Endpoint) {
		if e.Hints == nil {
			e.Hints = &discoveryv1.EndpointHints{}
		}
		e.Hints.ForZones = append(e.Hints.ForZones, discoveryv1.ForZone{Name: name})
	}
}

func forNode(name string) change {
	return func(e *discoveryv1.Endpoint) {
		if e.Hints == nil {
			e.Hints = &discoveryv1.EndpointHints{}
		}
		e.Hints.ForNodes = append(e.Hints.ForNodes, discoveryv1.ForNode{Name: name})
	}
}

func slice(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	name, protocol, port := "web", corev1.ProtocolTCP, int32(8080)
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: endpoints,
		Ports: []discoveryv1.EndpointPort{{Name: &name, Protocol: &protocol, Port: &port}},
	}
}

// The packets of the tests: who sends them where.
var (
	podToCluster     = packet{from: here2, to: clusterIP, port: 80}
	hostToCluster    = packet{from: nodeIP, to: clusterIP, port: 80, output: true}
	outsideToCluster = packet{from: outside, to: clusterIP, port: 80}
	toNodePort       = packet{from: outside, to: nodeIP, port: 30080}
	podToNodePort    = packet{from: here2, to: nodeIP, port: 30080}
	hostToNodePort   = packet{from: nodeIP, to: nodeIP, port: 30080, output: true}
	toExternal       = packet{from: outside, to: externalIP, port: 80}
	toBalancer       = packet{from: outside, to: balancerIP, port: 80}
	podToBalancer    = packet{from: here2, to: balancerIP, port: 80}
	hairpin          = packet{from: here, to: clusterIP, port: 80}
)

type expectation struct {
	packet packet
	want   string
}

type scenario struct {
	service   *corev1.Service
	endpoints []discoveryv1.Endpoint
	node      func(*rules.Node)
	want      []expectation
}

func run(t *testing.T, scenarios map[string]scenario) {
	t.Helper()
	for name, s := range scenarios {
		t.Run(name, func(t *testing.T) {
			n := testNode()
			if s.node != nil {
				s.node(n)
			}
			w := build(ruleset.IPv4, n, []*corev1.Service{s.service}, []*discoveryv1.EndpointSlice{slice(s.endpoints...)})
			for _, e := range s.want {
				if got := w.send(t, e.packet); got != e.want {
					t.Errorf("%+v: got %q, want %q", e.packet, got, e.want)
				}
			}
		})
	}
}

func TestTrafficPolicies(t *testing.T) {
	const atHere, atThere, both = here + ":8080", there + ":8080", here + ":8080, " + there + ":8080"
	const masqueraded = here + ":8080 masquerade, " + there + ":8080 masquerade"
	run(t, map[string]scenario{
		"cluster": {service(), []discoveryv1.Endpoint{endpoint(here), endpoint(there)}, nil, []expectation{
			{podToCluster, both}, {hostToCluster, masqueraded}, {outsideToCluster, masqueraded}, {toNodePort, masqueraded},
			{podToNodePort, masqueraded}, {hostToNodePort, masqueraded}, {toExternal, masqueraded}, {toBalancer, masqueraded},
			{hairpin, here + ":8080 masquerade, " + there + ":8080"},
			{packet{from: here2, to: clusterIP, port: 81}, "reject"},
			{packet{from: here2, to: clusterIP, port: 80, protocol: ruleset.UDP}, "reject"},
			{packet{from: here2, to: "10.96.0.2", port: 80}, "drop"},
			{packet{from: outside, to: gateway, port: 30080}, "pass"},
			{packet{from: outside, to: externalIP, port: 81}, "pass"},
		}},
		"external local": {service(externalLocal), []discoveryv1.Endpoint{endpoint(here), endpoint(there)}, nil, []expectation{
			{podToCluster, both}, {toNodePort, atHere}, {toExternal, atHere}, {toBalancer, atHere},
			{podToBalancer, both}, {hostToNodePort, masqueraded},
		}},
		"external local without local endpoints": {service(externalLocal), []discoveryv1.Endpoint{endpoint(there)}, nil, []expectation{
			{podToCluster, atThere}, {toNodePort, "drop"}, {toExternal, "drop"}, {toBalancer, "drop"}, {podToBalancer, atThere},
			{hostToNodePort, atThere + " masquerade"},
		}},
		"internal local": {service(internalLocal), []discoveryv1.Endpoint{endpoint(here), endpoint(there)}, nil, []expectation{
			{podToCluster, atHere}, {toNodePort, masqueraded},
		}},
		"internal local without local endpoints": {service(internalLocal), []discoveryv1.Endpoint{endpoint(there)}, nil, []expectation{
			{podToCluster, "drop"}, {toNodePort, atThere + " masquerade"},
		}},
		"no endpoints": {service(), nil, nil, []expectation{
			{podToCluster, "reject"}, {hostToCluster, "reject"}, {toNodePort, "reject"}, {toExternal, "reject"}, {toBalancer, "reject"},
		}},
		"no endpoints, both local": {service(internalLocal, externalLocal), nil, nil, []expectation{
			{podToCluster, "reject"}, {toNodePort, "reject"}, {toBalancer, "reject"},
		}},
		"affinity": {service(sticky), []discoveryv1.Endpoint{endpoint(here), endpoint(there)}, nil, []expectation{
			{podToCluster, both}, {toNodePort, masqueraded},
		}},
		"affinity and external local": {service(sticky, externalLocal), []discoveryv1.Endpoint{endpoint(here), endpoint(there)}, nil, []expectation{
			{podToCluster, both}, {toNodePort, atHere},
		}},
	})
}

func TestEndpointConditions(t *testing.T) {
	fading, gone, starting := conditions(false, true, true), conditions(false, false, true), conditions(false, false, false)
	run(t, map[string]scenario{
		"ready come first": {
			service(), []discoveryv1.Endpoint{endpoint(here, fading), endpoint(there), endpoint(there2, starting)}, nil,
			[]expectation{{podToCluster, there + ":8080"}},
		},
		"serving and terminating where none is ready": {
			service(), []discoveryv1.Endpoint{endpoint(here, fading), endpoint(there, gone), endpoint(there2, starting)}, nil,
			[]expectation{{podToCluster, here + ":8080"}},
		},
		"local ones fall back by themselves": {
			service(externalLocal), []discoveryv1.Endpoint{endpoint(here, fading), endpoint(there)}, nil,
			[]expectation{{podToCluster, there + ":8080"}, {toNodePort, here + ":8080"}},
		},
		"only another node's serves": {
			service(externalLocal), []discoveryv1.Endpoint{endpoint(here, gone), endpoint(there, fading)}, nil,
			[]expectation{{podToCluster, there + ":8080"}, {toNodePort, "drop"}},
		},
		"none serves": {
			service(), []discoveryv1.Endpoint{endpoint(here, gone), endpoint(there, starting)}, nil,
			[]expectation{{podToCluster, "reject"}},
		},
		"no node name is no local one": {
			service(externalLocal), []discoveryv1.Endpoint{endpoint(here, func(e *discoveryv1.Endpoint) { e.NodeName = nil })}, nil,
			[]expectation{{toNodePort, "drop"}, {podToCluster, here + ":8080"}},
		},
		"an address twice is one, and the newer pod counts": {
			service(), []discoveryv1.Endpoint{endpoint(here), endpoint(here, gone)}, nil, []expectation{{podToCluster, here + ":8080"}},
		},
	})
}

func TestTopology(t *testing.T) {
	starting := conditions(false, false, false)
	run(t, map[string]scenario{
		"zone": {
			service(), []discoveryv1.Endpoint{endpoint(here, zone("a")), endpoint(there, zone("b"))}, nil,
			[]expectation{{podToCluster, here + ":8080"}},
		},
		"a zone without endpoints gets all": {
			service(), []discoveryv1.Endpoint{endpoint(here, zone("b")), endpoint(there, zone("b"))}, nil,
			[]expectation{{podToCluster, here + ":8080, " + there + ":8080"}},
		},
		"one endpoint without hints voids them": {
			service(), []discoveryv1.Endpoint{endpoint(here, zone("a")), endpoint(there)}, nil,
			[]expectation{{podToCluster, here + ":8080, " + there + ":8080"}},
		},
		"one that is not ready does not void them": {
			service(), []discoveryv1.Endpoint{endpoint(here, zone("a")), endpoint(there, zone("b")), endpoint(there2, starting)}, nil,
			[]expectation{{podToCluster, here + ":8080"}},
		},
		"a node without a zone": {
			service(), []discoveryv1.Endpoint{endpoint(here, zone("a")), endpoint(there, zone("b"))}, func(n *rules.Node) { n.Zone = "" },
			[]expectation{{podToCluster, here + ":8080, " + there + ":8080"}},
		},
		"node before zone": {
			service(), []discoveryv1.Endpoint{endpoint(here, zone("a"), forNode("n1")), endpoint(here2, zone("a"), forNode("n3"))}, nil,
			[]expectation{{podToCluster, here + ":8080"}},
		},
		"zone where no endpoint is for the node": {
			service(), []discoveryv1.Endpoint{endpoint(there, zone("a"), forNode("n2")), endpoint(there2, zone("b"), forNode("n3"))}, nil,
			[]expectation{{podToCluster, there + ":8080"}},
		},
		"local policy heeds no hints": {
			service(externalLocal), []discoveryv1.Endpoint{endpoint(here, zone("b")), endpoint(there, zone("a"))}, nil,
			[]expectation{{toNodePort, here + ":8080"}, {podToCluster, there + ":8080"}},
		},
	})
}

func TestSourceRanges(t *testing.T) {
	ready := []discoveryv1.Endpoint{endpoint(here)}
	run(t, map[string]scenario{
		"outside": {service(ranges("10.0.0.0/8")), ready, nil, []expectation{
			{toBalancer, "drop"}, {podToBalancer, here + ":8080 masquerade"}, {toExternal, here + ":8080 masquerade"},
			{toNodePort, here + ":8080 masquerade"}, {packet{from: outside, to: balancerIP, port: 81}, "pass"},
		}},
		"inside":            {service(ranges(" 198.51.100.0/24 ", "2001:db8::/32")), ready, nil, []expectation{{toBalancer, here + ":8080 masquerade"}}},
		"everything":        {service(ranges("10.0.0.0/8", "0.0.0.0/0")), ready, nil, []expectation{{toBalancer, here + ":8080 masquerade"}}},
		"other family only": {service(ranges("2001:db8::/32")), ready, nil, []expectation{{toBalancer, here + ":8080 masquerade"}}},
		"the node reaches a balancer's IP that it has itself": {service(ranges("192.0.2.0/24")), ready, nil, []expectation{
			{packet{from: balancerIP, to: balancerIP, port: 80, output: true}, here + ":8080 masquerade"}, {toBalancer, "drop"},
		}},
		"the node reaches such an IP only if it is in the ranges": {service(ranges("10.0.0.0/8")), ready, nil, []expectation{
			{packet{from: balancerIP, to: balancerIP, port: 80, output: true}, "drop"},
		}},
		"also without endpoints": {service(ranges("10.0.0.0/8")), nil, nil, []expectation{{toBalancer, "drop"}, {podToBalancer, "reject"}}},
	})
}

func TestPodTraffic(t *testing.T) {
	ready := []discoveryv1.Endpoint{endpoint(here2), endpoint(there)}
	const all, masqueraded = here2 + ":8080, " + there + ":8080", here2 + ":8080 masquerade, " + there + ":8080 masquerade"
	none := func(n *rules.Node) { n.PodCIDRs = nil }
	fromBridge := packet{from: here, to: clusterIP, port: 80, in: "cni0"}
	run(t, map[string]scenario{
		"nothing to tell it by": {service(), ready, none, []expectation{{hairpin, masqueraded}}},
		"bridge": {service(), ready, func(n *rules.Node) { none(n); n.PodBridge = "cni0" }, []expectation{
			{hairpin, masqueraded}, {fromBridge, all},
		}},
		"all pods": {service(), ready, func(n *rules.Node) {
			none(n)
			n.ClusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
		}, []expectation{{hairpin, all}, {outsideToCluster, masqueraded}}},
		"external local without telling": {service(externalLocal), ready, none, []expectation{{podToBalancer, here2 + ":8080 masquerade"}}},
	})
}
