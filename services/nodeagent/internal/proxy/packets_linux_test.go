package proxy

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/nodeagent/internal/nft/ruleset"
	"github.com/garboard/garboard/services/nodeagent/internal/proxy/conntrack"
)

// service returns a Service with a TCP port 80, node port 30080, and a UDP port 53.
func (l *lab) service(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: l.cluster, ClusterIPs: []string{l.cluster}, ExternalIPs: []string{l.external},
			Ports: []corev1.ServicePort{
				{Name: "web", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080},
				{Name: "dns", Protocol: corev1.ProtocolUDP, Port: 53, NodePort: 30053},
			},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: l.balancer}}}},
	}
	if change != nil {
		change(s)
	}
	return s
}

// slice returns an EndpointSlice of ready endpoints; the remote one is another node's.
func (l *lab) slice(addrs ...string) *discoveryv1.EndpointSlice {
	web, dns, tcp, udp, port := "web", "dns", corev1.ProtocolTCP, corev1.ProtocolUDP, int32(8080)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1"},
		AddressType: discoveryv1.AddressType(l.family.String()),
		Ports:       []discoveryv1.EndpointPort{{Name: &web, Protocol: &tcp, Port: &port}, {Name: &dns, Protocol: &udp, Port: &port}},
	}
	for _, addr := range addrs {
		node := "n1"
		if addr == l.remoteAddr() {
			node = "n2"
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{addr}, NodeName: &node})
	}
	return s
}

// eachFamily runs a test in a lab of each family.
func eachFamily(t *testing.T, test func(l *lab)) {
	for name, p := range plans() {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, p)
			l.t = t
			test(l)
		})
	}
}

func TestPacketsReachEndpoints(t *testing.T) {
	eachFamily(t, func(l *lab) {
		l.apply(l.service(nil), l.slice(l.local))
		l.expect("a pod", l.otherNS, l.cluster, 80, "local "+l.other)
		l.expect("a client from outside, at the cluster IP", l.clientNS, l.cluster, 80, "local "+l.gateway)
		l.expect("a client, at a node port", l.clientNS, l.nodeAddr(), 30080, "local "+l.gateway)
		l.expect("a client, at an external IP", l.clientNS, l.external, 80, "local "+l.gateway)
		l.expect("a client, at the load balancer's IP", l.clientNS, l.balancer, 80, "local "+l.gateway)
		l.expect("the node", l.nodeNS, l.cluster, 80, "local")
		l.expect("the node, at its node port", l.nodeNS, l.nodeAddr(), 30080, "local")
		l.expect("the endpoint itself", l.localNS, l.cluster, 80, "local "+l.gateway)
		l.expect("the endpoint itself, at a node port", l.localNS, l.nodeAddr(), 30080, "local")
		// What is no part of the Service.
		l.expect("a client, at an unused port", l.clientNS, l.cluster, 81, "refused")
		l.expect("the node, at an unused port", l.nodeNS, l.cluster, 81, "refused")
		l.expect("a client, at a node port's number of the gateway", l.clientNS, l.gateway, 30080, "refused")
		unused := netip.MustParseAddr(l.cluster).Next().String()
		l.expect("a client, at an unused cluster IP", l.clientNS, unused, 80, "nothing")
	})
}

func TestPacketsSpread(t *testing.T) {
	eachFamily(t, func(l *lab) {
		l.apply(l.service(nil), l.slice(l.local, l.other, l.remoteAddr()))
		seen := make(map[string]bool)
		for range 60 {
			seen[l.dial(l.clientNS, l.cluster, 80)] = true
		}
		for _, want := range []string{"local", "other", "remote"} {
			if !seen[want+" "+l.gateway] {
				l.t.Errorf("of 60 connections none reached %s: %v", want, seen)
			}
		}
	})
}

func TestPacketsWithoutEndpoints(t *testing.T) {
	eachFamily(t, func(l *lab) {
		check := func() {
			l.t.Helper()
			l.expect("a pod", l.otherNS, l.cluster, 80, "refused")
			l.expect("the node", l.nodeNS, l.cluster, 80, "refused")
			l.expect("a client, at a node port", l.clientNS, l.nodeAddr(), 30080, "refused")
			l.expect("a client, at an external IP", l.clientNS, l.external, 80, "refused")
		}
		l.apply(l.service(nil))
		check()
		l.apply(l.service(nil), l.slice(l.local))
		l.expect("a pod, once there is an endpoint", l.otherNS, l.cluster, 80, "local")
		l.apply(l.service(nil), l.slice())
		check()
	})
}

func TestPacketsOfPolicyLocal(t *testing.T) {
	eachFamily(t, func(l *lab) {
		policy := l.service(func(s *corev1.Service) { s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal })
		l.apply(policy, l.slice(l.local, l.remoteAddr()))
		for range 10 {
			l.expect("a client keeps its address", l.clientNS, l.nodeAddr(), 30080, "local "+l.client)
			l.expect("a client keeps its address", l.clientNS, l.balancer, 80, "local "+l.client)
		}
		l.apply(policy, l.slice(l.remoteAddr()))
		l.expect("a client, without an endpoint here", l.clientNS, l.nodeAddr(), 30080, "nothing")
		l.expect("a client, without an endpoint here", l.clientNS, l.external, 80, "nothing")
		l.expect("a pod is not subject to the policy", l.otherNS, l.external, 80, "remote")
		l.expect("the node is not subject to the policy", l.nodeNS, l.external, 80, "remote")
		l.expect("the cluster IP is not subject to the policy", l.otherNS, l.cluster, 80, "remote")

		internal := l.service(func(s *corev1.Service) {
			local := corev1.ServiceInternalTrafficPolicyLocal
			s.Spec.InternalTrafficPolicy = &local
		})
		l.apply(internal, l.slice(l.remoteAddr()))
		l.expect("a pod, by the internal policy", l.otherNS, l.cluster, 80, "nothing")
		l.expect("a client, from outside", l.clientNS, l.external, 80, "remote")
		l.apply(internal, l.slice(l.local, l.remoteAddr()))
		for range 10 {
			l.expect("a pod, by the internal policy", l.otherNS, l.cluster, 80, "local")
		}
	})
}

func TestPacketsOfSourceRanges(t *testing.T) {
	eachFamily(t, func(l *lab) {
		ranges := func(list ...string) *corev1.Service {
			return l.service(func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = list })
		}
		single := fmt.Sprintf("%s/%d", l.client, netip.MustParseAddr(l.client).BitLen())
		l.apply(ranges(l.pods), l.slice(l.local))
		l.expect("a client out of the ranges", l.clientNS, l.balancer, 80, "nothing")
		l.expect("a pod in the ranges", l.otherNS, l.balancer, 80, "local")
		l.expect("the ranges are no matter of other IPs", l.clientNS, l.external, 80, "local")
		l.expect("the ranges are no matter of node ports", l.clientNS, l.nodeAddr(), 30080, "local")
		l.apply(ranges(l.pods, single), l.slice(l.local))
		l.expect("a client in the ranges", l.clientNS, l.balancer, 80, "local")
	})
}

func TestPacketsOfSessionAffinity(t *testing.T) {
	eachFamily(t, func(l *lab) {
		sticky := l.service(func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
		all := l.slice(l.local, l.other, l.remoteAddr())
		l.apply(sticky, all)
		first := l.dial(l.clientNS, l.cluster, 80)
		for range 20 {
			l.expect("a client that was there before", l.clientNS, l.cluster, 80, first)
			l.expect("a client that was there before, at another IP", l.clientNS, l.external, 80, first)
		}
		// The loss of an endpoint moves only its clients.
		byName := map[string]string{"local": l.local, "other": l.other, "remote": l.remoteAddr()}
		var name string
		if _, err := fmt.Sscan(first, &name); err != nil {
			l.t.Fatalf("first answer %q: %v", first, err)
		}
		for lost, addr := range byName {
			if lost != name {
				rest := slices.DeleteFunc([]string{l.local, l.other, l.remoteAddr()}, func(a string) bool { return a == addr })
				l.apply(sticky, l.slice(rest...))
				l.expect("a client whose endpoint stays", l.clientNS, l.cluster, 80, first)
			}
		}
		rest := slices.DeleteFunc([]string{l.local, l.other, l.remoteAddr()}, func(a string) bool { return a == byName[name] })
		l.apply(sticky, l.slice(rest...))
		if moved := l.dial(l.clientNS, l.cluster, 80); moved == first || moved == "nothing" || moved == "refused" {
			l.t.Errorf("a client whose endpoint is gone got %q", moved)
		}
	})
}

func TestPacketsOfGoneDatagramEndpoint(t *testing.T) {
	eachFamily(t, func(l *lab) {
		l.apply(l.service(nil), l.slice(l.local))
		var conn net.Conn
		l.in(l.clientNS, func() {
			var err error
			conn, err = net.Dial("udp", net.JoinHostPort(l.cluster, "53"))
			l.must(err)
		})
		defer func() { l.must(conn.Close()) }()
		ask := func(want string) {
			l.t.Helper()
			got := "nothing"
			for attempts := 0; got == "nothing" && attempts < 20; attempts++ {
				_, err := conn.Write([]byte("?"))
				l.must(err)
				got = read(conn, silence)
			}
			if got != want {
				l.t.Errorf("got %q, want %q", got, want)
			}
		}
		ask("local " + l.gateway)
		before := l.table.wanted.Unit(l.owner())
		l.apply(l.service(nil), l.slice(l.other))
		// The kernel still knows the connection.
		ask("local " + l.gateway)
		after := l.table.wanted.Unit(l.owner())
		if same(before, after) {
			l.t.Fatal("the change of a UDP endpoint goes unnoticed")
		}
		n, err := l.flows.End(l.family, conntrack.NewStale(after.Datagrams, l.node.IPs))
		if n != 1 || err != nil {
			l.t.Errorf("End = %d, %v", n, err)
		}
		ask("other " + l.gateway)
		if n, err := l.flows.End(l.family, conntrack.NewStale(after.Datagrams, l.node.IPs)); n != 0 || err != nil {
			l.t.Errorf("End without stale connections = %d, %v", n, err)
		}
	})
}

// TestRestart has a proxy that ends and another that takes over: neither open connections nor
// affinity suffer, and nothing is written that is there already.
func TestRestart(t *testing.T) {
	eachFamily(t, func(l *lab) {
		sticky := l.service(func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
		all := l.slice(l.local, l.other, l.remoteAddr())
		l.apply(sticky, all)
		first := l.dial(l.clientNS, l.cluster, 80)
		counting := &countingKernel{Netfilter: l.conn}
		successor := newTable(l.family, l.table.name, counting, l.table.logger, l.table.metrics)
		successor.wanted.SetSkeleton(l.skeleton())
		successor.wanted.Put(l.table.wanted.Unit(l.owner()))
		l.must(successor.repair())
		if counting.writes != 0 {
			l.t.Errorf("the successor wrote %d transactions", counting.writes)
		}
		l.expect("a client that was there before", l.clientNS, l.cluster, 80, first)
		// A Service that went while nobody looked is cleaned up.
		empty := newTable(l.family, l.table.name, counting, l.table.logger, l.table.metrics)
		empty.wanted.SetSkeleton(l.skeleton())
		l.must(empty.repair())
		l.expect("a client of a Service that is gone", l.clientNS, l.cluster, 80, "nothing")
		if len(empty.unused) == 0 {
			l.t.Error("the chains of the Service that is gone are not to be deleted")
		}
	})
}

// countingKernel counts the transactions.
type countingKernel struct {
	Netfilter
	writes int
}

func (k *countingKernel) Apply(family ruleset.Family, table string, change *ruleset.Change) error {
	k.writes++
	return k.Netfilter.Apply(family, table, change)
}
