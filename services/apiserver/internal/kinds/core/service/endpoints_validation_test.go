package service

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

func TestEndpoints(t *testing.T) {
	type subset = *corev1.EndpointSubset
	build := func(change func(subset)) *corev1.Endpoints {
		e := &corev1.Endpoints{ObjectMeta: meta("e"), Subsets: []corev1.EndpointSubset{{
			Addresses: []corev1.EndpointAddress{{IP: "10.0.0.1", NodeName: new("n"), Hostname: "h"}}, Ports: []corev1.EndpointPort{{Port: 80}},
		}}}
		change(&e.Subsets[0])
		defaultEndpoints(e)
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
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, validateEndpoints(build(tc.change)), tc.want...) })
	}
	odd := build(func(s subset) { s.Addresses[0].IP = "010.0.0.1" })
	errortest.Exactly(t, validateEndpointsUpdate(odd, odd))
	errortest.Exactly(t, validateEndpoints(odd), at+`.addresses[0].ip: Invalid value: "010.0.0.1": must not have leading 0s`)
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default", ResourceVersion: "1"}
}
