package discovery

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/garboard/garboard/services/apiserver/internal/kinds/validation/errortest"
)

const (
	fixed = "field is immutable"
)

func TestEndpointSlice(t *testing.T) {
	type slice = *discoveryv1.EndpointSlice
	build := func(change func(slice)) slice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: meta("s"), AddressType: "IPv4", Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}}}, Ports: []discoveryv1.EndpointPort{{Port: new(int32(80))}}}
		change(s)
		defaultEndpointSlice(s)
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
		{"no addresses", addresses("IPv4"), []string{at + ".addresses: Required value"}},
		{"many addresses", addresses("IPv4", many(101, "10.0.0.%d")...), []string{at + ".addresses: Too many: 101: must have at most 100 items"}},
		{"bad addresses", addresses("IPv4", "x", "fd00::1", "127.0.0.1"), []string{
			at + `.addresses[0]: Invalid value: "x": ` + badIP, at + `.addresses: Invalid value: "fd00::1": must be an IPv4 address`,
			at + `.addresses[2]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
		}},
		{"four in six", addresses("IPv6", "10.0.0.1"), []string{at + `.addresses: Invalid value: "10.0.0.1": must be an IPv6 address`}},
		{"six in another form", addresses("IPv6", "FD00::1"), []string{at + `.addresses[0]: Invalid value: "FD00::1": must be in canonical form ("fd00::1")`}},
		{"loop in the other family", addresses("IPv4", "::1"), []string{
			at + `.addresses: Invalid value: "::1": must be an IPv4 address`, at + `.addresses[0]: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
		}},
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
			s.Endpoints[0].Hints.ForNodes = []discoveryv1.ForNode{{Name: "A"}} // Too many zones hide it.
		}, []string{at + ".hints.forZones: Too many: 9: must have at most 8 items"}},
		{"ports", func(s slice) {
			s.Ports = []discoveryv1.EndpointPort{{Name: new("a")}, {Name: new("a"), Protocol: new(corev1.Protocol("ICMP"))}, {Name: new("A"), AppProtocol: new("a b")}}
		}, []string{
			`ports[1].name: Duplicate value: "a"`, `ports[1].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"`,
			`ports[2].name: Invalid value: "A": ` + label, `ports[2].appProtocol: Invalid value: "a b": ` + names,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) { errortest.Exactly(t, validateEndpointSlice(build(tc.change)), tc.want...) })
	}
	bare := build(func(slice) {})
	bare.Ports[0].Protocol = nil
	errortest.Exactly(t, validateEndpointSlice(bare), "ports[0].protocol: Required value")
	errortest.Exactly(t, validateEndpointSliceUpdate(build(addresses("IPv6", "fd00::1")), build(func(slice) {})), `addressType: Invalid value: "IPv6": `+fixed)
	errortest.Exactly(t, validateEndpointSliceUpdate(build(addresses("IP", "x")), build(func(slice) {})),
		`addressType: Unsupported value: "IP": supported values: "FQDN", "IPv4", "IPv6"`, `addressType: Invalid value: "IP": `+fixed)
	errortest.Exactly(t, validateEndpointSliceUpdate(build(addresses("", "x")), build(func(slice) {})), "addressType: Required value", `addressType: Invalid value: "": `+fixed)
	odd := build(addresses("IPv4", "010.0.0.1"))
	errortest.Exactly(t, validateEndpointSliceUpdate(odd, odd))
	errortest.Exactly(t, validateEndpointSliceUpdate(build(addresses("IPv4", "010.0.0.1", "10.0.0.2")), odd), at+`.addresses[0]: Invalid value: "010.0.0.1": must not have leading 0s`)
}

func endpointsOf(n int) []discoveryv1.Endpoint {
	all := make([]discoveryv1.Endpoint, n)
	for i := range all {
		all[i].Addresses = []string{"10.0.0.1"}
	}
	return all
}

const (
	badIP = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
	label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
	ports = "must be between 1 and 65535, inclusive"
	names = `name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`
	lower = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`
)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default", ResourceVersion: "1"}
}
